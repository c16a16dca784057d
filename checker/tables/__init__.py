"""The tables of a history: how they are made, their schema, and how they are read."""
