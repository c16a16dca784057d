"""Kafka on other hosts, by ssh."""
