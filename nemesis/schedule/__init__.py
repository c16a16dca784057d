"""When faults start and stop."""
