"""Pure functions over the columns of one bucket of keys."""
