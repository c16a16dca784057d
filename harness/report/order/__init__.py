"""Order pages: a page for each key with anomalies, which shows who wrote and who read each offset near an anomaly."""
