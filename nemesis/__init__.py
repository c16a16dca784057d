"""The faults: one module per verb, the targets they hit, and the schedules that time them."""
