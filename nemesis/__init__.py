"""Faults: one module per verb, pure targets, schedules."""
