"""Clusters of Kafka or Redpanda in containers."""
