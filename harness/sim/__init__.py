"""Simulated logs without effects, in which bugs can be enabled."""
