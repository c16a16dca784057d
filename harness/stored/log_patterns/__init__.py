"""Patterns of log lines for `harness offsets`, by name: see harness.stored.log_pattern."""
