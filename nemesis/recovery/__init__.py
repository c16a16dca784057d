"""The steps of recovery scenarios, and what servers log during recovery."""
