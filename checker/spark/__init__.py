"""The Spark session, and functions that run a task over many items."""
