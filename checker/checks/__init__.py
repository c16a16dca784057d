"""The checks that a workload can request by name; the worst verdict wins."""
