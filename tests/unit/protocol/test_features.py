"""The finalized features in a broker's ApiVersions response."""

from __future__ import annotations

import struct

import pytest

from harness.protocol import features
from harness.protocol.primitives import compact_array, compact_text, varint

# 18, version 3, correlation 1, "harness", no tags; the software's name and version, no tags.
REQUEST = bytes.fromhex("0012 0003 00000001 0007 6861726e657373 00 08 6861726e657373 02 31 00")


def answer(epoch: int | None, levels: dict[str, int], error: int = 0) -> bytes:
    apis = compact_array([struct.pack(">hhh", 18, 0, 4) + b"\0"])
    rows = [compact_text(name) + struct.pack(">hh", level, level) + b"\0" for name, level in levels.items()]
    fields = [(0, compact_array([]))]
    if epoch is not None:
        fields += [(1, struct.pack(">q", epoch)), (2, compact_array(rows))]
    tagged = b"".join(varint(tag) + varint(len(value)) + value for tag, value in fields)
    return struct.pack(">ih", 1, error) + apis + struct.pack(">i", 0) + varint(len(fields)) + tagged


def test_the_request_is_that_of_the_protocol_guide() -> None:
    assert features.request() == REQUEST


def test_the_levels_in_force() -> None:
    levels = {"metadata.version": 27, "eligible.leader.replicas.version": 1}
    assert features.finalized(answer(7, levels)) == levels
    assert features.finalized(answer(0, {})) == {}


def test_brokers_without_features_name_none() -> None:
    assert features.finalized(answer(None, {})) is None
    assert features.finalized(answer(-1, {})) is None


def test_errors_and_truncated_answers_are_refused() -> None:
    with pytest.raises(ValueError, match="error code 35"):
        features.finalized(answer(7, {}, error=35))
    whole = answer(7, {"metadata.version": 27})
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="truncated"):
            features.finalized(whole[:length])
