"""The logic of a pipeline instance. It uses ports, which either a client library or a simulation implements.

The logic has no threads, files or clocks of its own.
"""
