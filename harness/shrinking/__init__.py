"""Making findings small: the smallest part of a history, or of a plan, that still shows an anomaly."""
