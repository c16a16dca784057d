"""From anomalies to a verdict."""
