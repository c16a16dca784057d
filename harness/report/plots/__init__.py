"""Plots of a stored run, as PNG and SVG files."""
