"""Steps of recovery scenarios, and what servers log of a recovery."""
