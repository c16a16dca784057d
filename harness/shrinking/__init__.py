"""Reduces a history to a small part, or a plan to a smaller plan, that still shows an anomaly."""
