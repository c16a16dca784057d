"""Patterns of log lines for `harness offsets`, by name: see harness.log_pattern."""
