"""Adapter for confluent-kafka (librdkafka)."""
