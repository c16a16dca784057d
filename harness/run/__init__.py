"""Carries out a plan: cluster, workers, workload, interpreter, history, verdict."""
