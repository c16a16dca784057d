"""The logic of a pipeline instance. It uses interfaces ("ports") that client libraries and a simulation implement.

The logic has no threads, files or clocks of its own.
"""
