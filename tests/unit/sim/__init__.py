"""Tests of the simulated log."""
