"""The workloads: what the clients do in a run, and which checks judge the run."""
