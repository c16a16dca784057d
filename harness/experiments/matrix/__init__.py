"""Many runs from one file: workloads, faults, settings and versions crossed, within a budget of time."""
