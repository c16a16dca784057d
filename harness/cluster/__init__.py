"""Where the system under test runs: one module per kind of cluster."""
