"""The log-model workload."""
