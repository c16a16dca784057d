"""The pure parts of the pipeline workload: what an instance does, above ports that a library or a simulation
fills. No thread, file or clock of its own."""
