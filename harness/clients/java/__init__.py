"""Adapter for Kafka's Java client."""
