"""The search for cycles in the dependency graph between operations."""
