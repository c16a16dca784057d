"""Requests that change the levels of features, and levels in a formatted storage."""

from __future__ import annotations

import struct

import pytest

from harness.protocol import features, update_features
from harness.protocol.primitives import TAGS, compact_array, compact_text, varint


def test_a_request_has_each_feature_with_its_level() -> None:
    request = update_features.request({"metadata.version": 27, "x": 0}, update_features.UPGRADE, 5.0)
    assert struct.unpack_from(">hh", request) == (57, 1)
    body = request[request.index(struct.pack(">i", 5000)) :]
    rows = [compact_text(name) + struct.pack(">hb", level, 1) + TAGS for name, level in
            (("metadata.version", 27), ("x", 0))]  # fmt: skip
    assert body == struct.pack(">i", 5000) + compact_array(rows) + b"\0" + TAGS


def _answer(error: int, message: str, rows: list[tuple[str, int, str]]) -> bytes:
    results = [compact_text(name) + struct.pack(">h", code) + compact_text(text) + TAGS for name, code, text in rows]
    head = struct.pack(">i", 1) + TAGS + struct.pack(">ih", 0, error) + compact_text(message)
    return head + compact_array(results) + TAGS


def test_the_first_error_counts() -> None:
    assert update_features.answer(_answer(0, "", [("a", 0, "")])) == (0, "")
    assert update_features.answer(_answer(95, "no", [])) == (95, "no")
    assert update_features.answer(_answer(0, "", [("a", 0, ""), ("b", 96, "bad")])) == (96, "b: bad")
    with pytest.raises(ValueError, match="truncated"):
        update_features.answer(_answer(0, "", [("a", 0, "")])[:-4])


def _api_versions(epoch: int | None, levels: dict[str, int]) -> bytes:
    rows = [compact_text(name) + struct.pack(">hh", level, level) + TAGS for name, level in levels.items()]
    tagged = {2: compact_array(rows)} | ({} if epoch is None else {1: struct.pack(">q", epoch)})
    fields = b"".join(varint(tag) + varint(len(raw)) + raw for tag, raw in sorted(tagged.items()))
    return struct.pack(">ih", 1, 0) + compact_array([]) + struct.pack(">i", 0) + varint(len(tagged)) + fields


def test_reported_features_have_their_epoch() -> None:
    assert features.reported(_api_versions(42, {"metadata.version": 27})) == features.Finalized(
        42, {"metadata.version": 27}
    )
    assert features.reported(_api_versions(None, {})) is None
    assert features.reported(_api_versions(-1, {})) is None
