"""Workloads: what the clients do, and which checks judge it."""
