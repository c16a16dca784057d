"""Parses producer snapshots: the state of a partition's idempotent producers up to an offset.

The offset is the name of the file. The file starts with:

    int16   version (1)
    uint32  CRC-32C of everything that follows
    int32   number of producers

Then follows for each producer:

    int64   producer id
    int16   producer epoch
    int32   sequence number of the last record in the producer's last batch
    int64   offset of this record
    int32   last minus first sequence number of this batch
    int64   timestamp of this batch
    int32   epoch of the transaction coordinator
    int64   first offset of the open transaction; -1 if there is none

Source: Kafka's storage module (ProducerSnapshot.json, ProducerStateManager).
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
    """The state of one producer: the fields in the module docstring. An absent offset is -1. The timestamp is in ms."""

    id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    open_since: int


def snapshot(data: bytes, name: str) -> tuple[tuple[Producer, ...], tuple[Flaw, ...]]:
    """Parses a .snapshot. Returns (its producers, its flaws); if there is a flaw, no producers.

    `name` is the file's name in the flaws.
    """
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
