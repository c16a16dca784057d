"""Finds the smallest part of a history, or the smallest plan, that still shows an anomaly."""
