"""Adapter for aiokafka."""
