"""Kafka clusters on other hosts, through ssh."""
