"""Access to stored runs: finds them, and reads their operations, records, faults and the brokers' data."""
