"""The Spark session, and running a function over many items."""
