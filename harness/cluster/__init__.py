"""Clusters under test: one module per kind of cluster."""
