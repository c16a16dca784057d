"""Input against output while both grow: Spark Structured Streaming over topics or files."""
