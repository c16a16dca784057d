"""Client libraries: an adapter for each, and the logic of ops, which all adapters share."""
