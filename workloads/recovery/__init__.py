"""The recovery workload."""
