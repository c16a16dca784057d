"""One module per anomaly, over one bucket of keys."""
