"""From a plan to a judged run: cluster, workers, workload, interpreter, history, verdict."""
