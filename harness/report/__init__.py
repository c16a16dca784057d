"""Plots, prose and pages made from a stored run."""
