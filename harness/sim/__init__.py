"""Simulations without brokers, files or waiting: logs in which bugs can be enabled, and an environment for the
pipeline.
"""
