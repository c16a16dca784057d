"""How a history numbers the partitions of a pipeline's input topics: through all topics, growing with them.

Partition p of input topic t of n has the number p * n + t, so a topic that grows moves no other's number.
"""

from __future__ import annotations


def number_of(topic: int, partition: int, inputs: int) -> int:
    """The number of a partition of one of `inputs` topics, counted from 0."""
    return partition * inputs + topic


def place_of(number: int, inputs: int) -> tuple[int, int]:
    """(topic, partition) of a number."""
    return number % inputs, number // inputs
