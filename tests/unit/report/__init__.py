"""Tests of plots, prose and listings."""
