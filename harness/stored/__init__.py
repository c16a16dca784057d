"""Access to stored runs: finding them, and reading their operations, records, faults and broker data."""
