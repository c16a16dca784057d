"""Cycles in the dependency graph."""
