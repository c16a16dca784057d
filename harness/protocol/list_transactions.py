"""Lists the transactional ids of which a broker is the coordinator.

ListTransactions, version 0 (flexible: see `admin_requests`; KIP-664, brokers since 3.0)
  Request   [compact string state] | [int64 producer id] | tags; an empty array lists everything
  Response  int32 throttle | int16 error | [compact string unknown state] |
            [compact string transactional id, int64 producer id, compact string state, tags] | tags
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from typing import Final

from harness.protocol.primitives import TAGS, Reader, compact_array, head

LIST_TRANSACTIONS: Final = 66


def request() -> bytes:
    """Encodes a request that lists all transactional ids."""
    return head(LIST_TRANSACTIONS, 0) + TAGS + compact_array([]) + compact_array([]) + TAGS


def answer(response: bytes) -> tuple[int, dict[str, str]]:
    """Returns (error code, transactional id -> state), such as "Ongoing". Raises ValueError if it is truncated."""
    found = {}
    try:
        reader = Reader(response)
        reader.take("i")  # correlation
        reader.tags()
        reader.take("i")  # throttle time
        error = int(reader.take("h"))
        for _ in range(reader.varint() - 1):
            reader.compact_text()
        for _ in range(reader.varint() - 1):
            name, _, state = reader.compact_text(), reader.take("q"), reader.compact_text()
            reader.tags()
            found[name] = state
    except struct.error as problem:
        raise ValueError("a ListTransactions answer is truncated") from problem
    return error, found
