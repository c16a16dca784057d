"""The response of DescribeShareGroupOffsets, encoded here as Kafka's protocol guide describes it."""

from __future__ import annotations

import struct

import pytest

from harness.protocol import share_groups
from harness.protocol.primitives import TAGS, compact_array, compact_text

NULL = b"\0"


def _partition(number: int, start: int, error: int = 0) -> bytes:
    return struct.pack(">iqih", number, start, 0, error) + NULL + TAGS


def _answer(*partitions: bytes, error: int = 0) -> bytes:
    topic = compact_text("r-0") + bytes(16) + compact_array(partitions) + TAGS
    group = compact_text("r-g0") + compact_array([topic]) + struct.pack(">h", error) + NULL + TAGS
    return struct.pack(">i", 1) + TAGS + struct.pack(">i", 0) + compact_array([group]) + TAGS


def test_partitions_with_and_without_start_offset_or_with_an_error() -> None:
    answer = _answer(_partition(0, 17), _partition(1, -1), _partition(2, 5, error=3))
    assert share_groups.start_offsets(answer) == (0, {("r-0", 0): 17, ("r-0", 1): None})


def test_the_error_of_the_group() -> None:
    assert share_groups.start_offsets(_answer(error=16)) == (16, {})


def test_a_truncated_response_is_an_error() -> None:
    whole = _answer(_partition(0, 17))
    for length in range(len(whole) - 5):
        with pytest.raises(ValueError):
            share_groups.start_offsets(whole[:length])
