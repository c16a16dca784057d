"""The logic of a pipeline instance, on top of ports that a client library or a simulation implements.

It has no threads, files or clocks of its own.
"""
