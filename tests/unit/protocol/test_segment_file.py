"""Positions of batches in a segment, and its end."""

from __future__ import annotations

import struct

import pytest

from harness.protocol.encode_batch import encode
from harness.protocol.segment_file import covered, extent


def stored(base: int, *stamps: int, control: bool = False) -> bytes:
    """A batch as a broker stores it: base offset and control flag are changed afterwards, the checksum is not."""
    batch = bytearray(encode([(stamp, "k", "v") for stamp in stamps]))
    batch[:8] = struct.pack(">q", base)
    batch[22] |= 0x20 * control
    return bytes(batch)


def test_a_segment_reaches_to_its_last_whole_batch() -> None:
    first, second = stored(40, 1_000, 3_000), stored(42, 2_000)
    assert extent(first + second) == (43, 3_000)
    assert extent(first + second[:-1]) == (42, 3_000)
    assert covered(first + second) == [range(21, len(first)), range(len(first) + 21, len(first + second))]


def test_timestamps_of_markers_are_unknown_outside() -> None:
    assert extent(stored(0, 1_000) + stored(1, 2_000, control=True)) == (2, None)


def test_a_segment_without_a_whole_batch_has_no_extent() -> None:
    with pytest.raises(ValueError, match="no whole batch"):
        extent(stored(0, 1_000)[:-1])
