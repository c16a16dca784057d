"""Checks of consume-transform-produce pipelines: outputs against inputs, and what the consumers did."""
