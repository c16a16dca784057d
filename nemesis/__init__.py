"""The faults: one module for each verb (such as kill), the targets of faults, and the schedules that time them."""
