"""The runtime: from a plan to a stored, reported run."""
