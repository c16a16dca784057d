"""The clients of the pipeline workload: writers, instances, and the final reading, above a library."""
