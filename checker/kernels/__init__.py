"""The kernels of the checker: pure functions over the columns of one bucket of keys."""
