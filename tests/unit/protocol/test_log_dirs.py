"""Requests about log directories: the bytes of the protocol guide."""

from __future__ import annotations

import struct

import pytest

from harness.model.capabilities import LogDir
from harness.protocol.log_dirs import DESCRIBE, alter_request, altered, described
from harness.protocol.primitives import text


def _partition(number: int, future: bool) -> bytes:
    return struct.pack(">iqq?", number, 1000, 0, future)


ANSWER = (
    struct.pack(">iii", 1, 0, 2)
    + struct.pack(">h", 0) + text("/d/data") + struct.pack(">i", 1)
    + text("t") + struct.pack(">i", 2) + _partition(0, False) + _partition(1, True)
    + struct.pack(">h", 56) + text("/d/data2") + struct.pack(">i", 0)
)  # fmt: skip


def test_directories_online_and_offline() -> None:
    assert described(ANSWER) == {
        "/d/data": LogDir("", {("t", 0): False, ("t", 1): True}),
        "/d/data2": LogDir("KAFKA_STORAGE_ERROR"),
    }
    assert DESCRIBE.endswith(struct.pack(">i", -1))


@pytest.mark.parametrize("size", [0, 11, 20, len(ANSWER) - 1])
def test_a_truncated_answer_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="truncated"):
        described(ANSWER[:size])


def test_moves_are_grouped_by_directory_and_topic() -> None:
    request = alter_request({"/d/b": [("t", 2), ("s", 0), ("t", 1)]})
    body = struct.pack(">i", 1) + text("/d/b") + struct.pack(">i", 2)
    body += text("s") + struct.pack(">ii", 1, 0) + text("t") + struct.pack(">iii", 2, 1, 2)
    assert request[:4] == struct.pack(">hh", 34, 1) and request.endswith(body)


def test_only_errors_are_reported() -> None:
    answer = struct.pack(">iii", 1, 0, 1) + text("t") + struct.pack(">i", 2) + struct.pack(">ihih", 0, 0, 1, 56)
    assert altered(answer) == {("t", 1): "KAFKA_STORAGE_ERROR"}
    with pytest.raises(ValueError, match="truncated"):
        altered(answer[:-1])
