"""Client libraries: an adapter for each of them, and the code that carries out ops, which all adapters share."""
