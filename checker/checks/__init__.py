"""The checks that a workload can request by name. If it requests several, the worst of their verdicts counts."""
