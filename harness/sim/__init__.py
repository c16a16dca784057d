"""Simulations without brokers, files or waiting: logs in which bugs can be enabled, and the world of the pipeline."""
