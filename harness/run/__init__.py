"""Carries out a plan: starts the cluster and the workers, runs the load and the faults, and checks the history."""
