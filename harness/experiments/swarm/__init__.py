"""Runs of random plans: each round leaves out a random half of the features (swarm testing)."""
