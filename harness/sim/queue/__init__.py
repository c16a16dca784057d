"""A simulated log, with clients and a consumer group, for the queue workload."""
