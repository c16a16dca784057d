"""A simulated world for the pipeline workload."""
