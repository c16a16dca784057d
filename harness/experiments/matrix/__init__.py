"""Many runs from one file: combinations of workloads, faults, settings and versions, and also experiments."""
