"""Kafka's wire format and files: requests, record batches, compression, errors. A leaf."""
