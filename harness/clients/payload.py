"""Encodes and decodes the payload of records, so that a poll can detect records that this run did not write.

    offset  size  field
         0     2  b"KL"
         2     1  schema, 1
         3     1  length of the run id
         4     8  key                 signed, big-endian
        12     8  value
        20     8  index of the op that sent it
        28     n  run id, UTF-8
    28 + n     p  padding, zero bytes
        -4     4  CRC-32 of all preceding bytes

The consumer's `check.crcs` covers record batches on the wire and on disk. This checksum also covers errors inside
the client, and the key reveals a record that was written to the wrong partition (KAFKA-19012).
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

_HEAD: Final = struct.Struct(">2sBBqqq")
_TAIL: Final = struct.Struct(">I")
_MAGIC: Final = b"KL"
_SCHEMA: Final = 1
_SHOWN_BYTES: Final = 16


def encode(run: str, key: int, value: int, index: int, size: int = 0) -> bytes:
    """Returns the payload of a record, padded with zero bytes to `size` bytes if it is shorter.

    `index`: index of the op that sends the record.

    Raises ValueError if the run id exceeds 255 bytes.
    """
    name = run.encode()
    if len(name) > 255:
        raise ValueError(f"the run id has {len(name)} bytes; a payload has room for 255")
    head = _HEAD.pack(_MAGIC, _SCHEMA, len(name), key, value, index) + name
    padding = bytes(max(0, size - len(head) - _TAIL.size))
    return head + padding + _TAIL.pack(crc32(padding, crc32(head)))


def decode(payload: bytes | None, run: str, key: int) -> int | str:
    """Returns the value in the payload of a record that was polled from the partition of `key`.

    If this run cannot have written the payload to that key, returns "bad-payload:<reason>:<first bytes, hex>". The
    reason is the first check that failed: format, checksum, run or key.
    """
    if payload is None or len(payload) < _HEAD.size + _TAIL.size:
        return _bad("format", payload)
    magic, schema, length, wrote_key, value, _ = _HEAD.unpack_from(payload)
    if magic != _MAGIC or schema != _SCHEMA or len(payload) < _HEAD.size + length + _TAIL.size:
        return _bad("format", payload)
    if _TAIL.unpack_from(payload, len(payload) - _TAIL.size)[0] != crc32(memoryview(payload)[: -_TAIL.size]):
        return _bad("checksum", payload)
    if payload[_HEAD.size : _HEAD.size + length] != run.encode():
        return _bad("run", payload)
    if wrote_key != key:
        return _bad("key", payload)
    return int(value)


def key_of(payload: bytes | None) -> int | None:
    """Returns the key that a payload names; None if it is too short. Does not verify the payload."""
    if payload is None or len(payload) < _HEAD.size + _TAIL.size:
        return None
    key: int = _HEAD.unpack_from(payload)[3]
    return key


def _bad(reason: str, payload: bytes | None) -> str:
    return f"bad-payload:{reason}:{(payload or b'')[:_SHOWN_BYTES].hex()}"


def at_most(size: int) -> int:
    """Returns the maximum length of a payload that is padded to `size` bytes, for any run id.

    The maximum exceeds `size` if the payload can be longer without padding.
    """
    return max(size, _HEAD.size + 255 + _TAIL.size)
