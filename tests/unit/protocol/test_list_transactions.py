"""ListTransactions: the request, and transactional ids with their states in the response."""

from __future__ import annotations

import struct

import pytest

from harness.protocol import list_transactions
from harness.protocol.primitives import compact_array, compact_text


def answer(states: dict[str, str], error: int = 0) -> bytes:
    rows = [compact_text(name) + struct.pack(">q", 7) + compact_text(state) + b"\0" for name, state in states.items()]
    unknown = compact_array([compact_text("Odd")])
    return struct.pack(">i", 1) + b"\0" + struct.pack(">ih", 0, error) + unknown + compact_array(rows) + b"\0"


def test_the_request_is_that_of_the_protocol_guide() -> None:
    # 66, version 0, correlation 1, "harness", no tags; two empty arrays, no tags
    assert list_transactions.request() == bytes.fromhex("0042 0000 00000001 0007 6861726e657373 00 01 01 00")


def test_transactional_ids_and_their_states() -> None:
    states = {"r-0": "Ongoing", "r-1": "CompleteCommit"}
    assert list_transactions.answer(answer(states)) == (0, states)
    assert list_transactions.answer(answer({}, 14)) == (14, {})
    with pytest.raises(ValueError, match="truncated"):
        list_transactions.answer(answer(states)[:30])
