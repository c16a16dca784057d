"""Many runs from one file: all combinations of workloads, faults, settings and versions, within a time budget."""
