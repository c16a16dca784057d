"""Parses producer snapshots: the state of a partition's idempotent producers up to an offset.

The offset is the name of the file. Its content is: version int16 (1), CRC-32C of the rest uint32, number of producers
int32. Then follows for each producer: id int64, epoch int16, sequence number int32 and offset int64 of the last record
in its last batch, last minus first sequence number of that batch int32, timestamp of that batch int64, epoch of the
coordinator int32, first offset of the open transaction int64 (-1: none). Source: Kafka's storage module
(ProducerSnapshot.json, ProducerStateManager).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import google_crc32c

from harness.protocol.flaws import Flaw

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_COVERED_AT: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")


@dataclass(frozen=True, slots=True)
class Producer:
    """The state of one producer. An offset is -1 if there is none. The timestamp is in ms."""

    id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    open_since: int


def snapshot(data: bytes, name: str) -> tuple[tuple[Producer, ...], tuple[Flaw, ...]]:
    """Returns (the producers in a .snapshot, its flaws). There are no producers if the checksum is bad."""
    if len(data) < _HEAD.size:
        return (), (Flaw(name, 0, f"{len(data)} bytes are too few for a snapshot"),)
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        return (), (Flaw(name, 0, f"version {version}; only version {VERSION} is supported"),)
    if google_crc32c.value(data[_COVERED_AT:]) != crc:
        return (), (Flaw(name, 2, "bad checksum"),)
    if count < 0 or _HEAD.size + count * _ENTRY.size != len(data):
        return (), (Flaw(name, _COVERED_AT, f"{len(data)} bytes is not the size of a snapshot with {count} producers"),)
    return tuple(Producer(*row) for row in _ENTRY.iter_unpack(data[_HEAD.size :])), ()
