"""The recovery workload and its scenarios."""
