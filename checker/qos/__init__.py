"""Live comparison of a pipeline's input with its output, by Spark Structured Streaming over topics or files."""
