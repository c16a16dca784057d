"""Adapter for Kafka's own Java client."""
