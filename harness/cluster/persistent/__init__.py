"""A persistent cluster as runs use it: its client, and calls to its server."""
