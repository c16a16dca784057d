"""Mutation testing of the checker's kernels."""
