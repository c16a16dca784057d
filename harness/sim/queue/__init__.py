"""A simulated log for the queue workload."""
