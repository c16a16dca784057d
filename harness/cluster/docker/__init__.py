"""Kafka or Redpanda in containers."""
