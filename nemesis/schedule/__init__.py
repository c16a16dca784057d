"""Schedules: when faults start and stop, by the clock or by a trigger."""
