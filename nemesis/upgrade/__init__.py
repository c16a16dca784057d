"""Upgrades of a running cluster: the order of their steps, and the restart of a server with another version."""
