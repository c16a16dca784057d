"""Reduces findings: finds the smallest part of a history, or of a plan, that still shows an anomaly."""
