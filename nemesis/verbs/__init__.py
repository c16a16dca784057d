"""One module per fault verb."""
