"""Clusters that outlive a run: the process that holds one, its lifecycle, commands, cleanup."""
