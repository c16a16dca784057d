"""Kafka's wire format and files: requests, record batches, compression, errors. Imports nothing else of the project."""
