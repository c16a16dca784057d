"""The checker on Spark: from a stored history to a verdict."""
