"""Many runs from one file: all combinations of workloads, faults, settings and versions, and experiments."""
