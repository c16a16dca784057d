"""The clients of the pipeline workload: writers, pipeline instances and the final reading, for any library."""
