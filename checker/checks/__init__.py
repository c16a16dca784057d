"""Whole checks that a workload names; the worst verdict wins."""
