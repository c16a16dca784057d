"""The log model: a simulation of partitions' logs, with which real brokers are compared."""
