"""The catalogue of anomalies: one module per anomaly or family of anomalies."""
