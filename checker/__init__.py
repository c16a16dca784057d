"""The checker: turns a stored history into a verdict, on Spark or in one process."""
