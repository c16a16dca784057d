"""Decodes the parts of Kafka's requests and responses that the wire proxy's rules need. All functions are pure.

A request begins with its length and a header. The header contains the API key, the version and the correlation id. All
header versions but the first also contain a client id, and header version 2 also contains tagged fields. Of the body,
only the first fields are decoded: the transactional id, the acks of a Produce request, and whether an EndTxn request
commits. A response starts with the correlation id of its request. Source: Kafka protocol guide; KIP-482 for compact
strings and tagged fields.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from harness.protocol.primitives import read_varint

SIZE: Final = struct.Struct(">i")
_START: Final = struct.Struct(">hhi")
_SHORT: Final = struct.Struct(">h")
CORRELATION: Final = struct.Struct(">i")

# A stream with a longer "request" than brokers accept (socket.request.max.bytes) is not Kafka's protocol, but TLS, for
# example. Clients determine the size of responses, so the limit for responses is higher.
REQUEST_BYTES_MAX: Final = 100 << 20
RESPONSE_BYTES_MAX: Final = 1 << 30
REQUEST_BYTES_MIN: Final = 8
RESPONSE_BYTES_MIN: Final = 4
# How many bytes are examined: header and first fields, with client id and transactional id of usual length.
HEAD_BYTES: Final = 1024

PRODUCE: Final = 0
END_TXN: Final = 26
# API key -> (first version in which the body begins with a transactional id, last such version, first version with
# compact strings). 99: the newest version.
_TXN_FIRST: Final = {
    PRODUCE: (3, 99, 9),
    22: (0, 99, 2),  # InitProducerId
    24: (0, 3, 3),  # AddPartitionsToTxn; from version 4 on it is a list, and only brokers send it
    25: (0, 99, 3),  # AddOffsetsToTxn
    END_TXN: (0, 99, 3),
    28: (0, 99, 3),  # TxnOffsetCommit
}


class Request(NamedTuple):
    """What is known about a request.

    api       API key
    txn       transactional id; empty if there is none
    answered  whether the broker sends a response to the request
    commit    for EndTxn: whether it commits; None for other APIs
    """

    api: int
    version: int
    correlation: int
    txn: bytes = b""
    answered: bool = True
    commit: bool | None = None


def request(data: bytes | bytearray | memoryview) -> Request:
    """Decodes the first bytes of a request. `data` starts after the request's leading size.

    Fields that are not valid, or lie beyond the end of `data`, keep their default values. Raises struct.error if `data`
    has fewer than 8 bytes.
    """
    api, version, correlation = _START.unpack_from(data)
    if api not in _TXN_FIRST:
        return Request(api, version, correlation)
    try:
        return _with_body(data, api, version, correlation)
    except (struct.error, IndexError):
        return Request(api, version, correlation)


def _with_body(data: bytes | bytearray | memoryview, api: int, version: int, correlation: int) -> Request:
    first, last, compact = _TXN_FIRST[api]
    (size,) = _SHORT.unpack_from(data, 8)
    at = 10 + max(size, 0)
    flexible = version >= compact
    if flexible:
        at = _after_tags(data, at)
    txn = b""
    if first <= version <= last:
        if flexible:
            size, at = read_varint(data, at)
            size -= 1
        else:
            (size,) = _SHORT.unpack_from(data, at)
            at += 2
        size = max(size, 0)
        txn = bytes(data[at : at + size])
        at += size
    if api == PRODUCE:
        (acks,) = _SHORT.unpack_from(data, at)
        return Request(api, version, correlation, txn, acks != 0)
    if api == END_TXN:
        return Request(api, version, correlation, txn, True, bool(data[at + 10]))  # after producer id and epoch
    return Request(api, version, correlation, txn)


def _after_tags(data: bytes | bytearray | memoryview, at: int) -> int:
    count, at = read_varint(data, at)
    for _ in range(min(count, 64)):
        _, at = read_varint(data, at)
        size, at = read_varint(data, at)
        at += size
    return at
