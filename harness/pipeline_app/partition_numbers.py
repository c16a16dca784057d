"""The numbers by which a history identifies the partitions of all of a pipeline's input topics.

Partition p of input topic t of n has the number p * n + t, so adding partitions changes no existing number.
"""

from __future__ import annotations


def number_of(topic: int, partition: int, inputs: int) -> int:
    """Return the number of a partition of one of `inputs` topics; topics and partitions count from 0."""
    return partition * inputs + topic


def place_of(number: int, inputs: int) -> tuple[int, int]:
    """Return (topic, partition) of a number."""
    return number % inputs, number // inputs
