"""Plots, text and HTML pages that are generated from a stored run."""
