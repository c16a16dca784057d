"""Stored runs: finding them, reading their operations, faults, facts and broker data."""
