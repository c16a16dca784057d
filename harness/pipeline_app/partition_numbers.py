"""The numbers that identify the input partitions of a pipeline in its history, across all input topics.

If there are n input topics, partition p of topic t has the number p * n + t. So adding partitions changes no existing
number.
"""

from __future__ import annotations


def number_of(topic: int, partition: int, inputs: int) -> int:
    """Returns the number of a partition.

    topic      number of its topic, counted from 0
    partition  its number in the topic, counted from 0
    inputs     number of input topics
    """
    return partition * inputs + topic


def place_of(number: int, inputs: int) -> tuple[int, int]:
    """Returns the (topic, partition) that this number identifies. Both are counted from 0."""
    return number % inputs, number // inputs
