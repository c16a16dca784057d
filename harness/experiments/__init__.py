"""Experiments: test plans that are run several times, with expectations about the anomalies that the runs show."""
