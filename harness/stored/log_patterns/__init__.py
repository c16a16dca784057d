"""Built-in patterns of log lines for `harness offsets`, one file per name: see harness.stored.log_pattern."""
