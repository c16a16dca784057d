"""Checks of what brokers left on disk: decodes their files, compares replicas, and finds causes of lost records."""
