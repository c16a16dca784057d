"""The model of a partition's log."""
