"""The clients of the pipeline workload, for any library: writers, pipeline instances and the final reading."""
