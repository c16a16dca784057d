"""A simulated environment for the instances of the pipeline workload."""
