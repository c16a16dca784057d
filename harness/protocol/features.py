"""Decodes which features are enabled and supported: a broker's or controller's ApiVersions response.

ApiVersions, version 3 (KIP-511, KIP-584). The version is flexible, but the response has a header without tagged fields.
  Request   compact string client software name, compact string client software version | tags
  Response  int16 error | [int16 api key, int16 min version, int16 max version, tags] | int32 throttle | tagged fields:
            1 int64 epoch, 2 [compact string feature, int16 max level, int16 min level, tags]
Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.protocol.primitives import TAGS, Reader, compact_text, head

API_VERSIONS: Final = 18
_EPOCH: Final = 1
_FINALIZED: Final = 2


@dataclass(frozen=True, slots=True)
class Finalized:
    """The finalized features that a server knows.

    epoch   the offset in the metadata log (with ZooKeeper: the version of the feature node) up to which it knows them
    levels  feature name -> level
    """

    epoch: int
    levels: Mapping[str, int]


def request() -> bytes:
    """Encodes an ApiVersions request."""
    return head(API_VERSIONS, 3) + TAGS + compact_text("harness") + compact_text("1") + TAGS


def reported(answer: bytes) -> Finalized | None:
    """Returns the finalized features in an ApiVersions response, with their epoch.

    Returns None if the server reports no features at all. Raises ValueError if the response contains an error or is
    truncated.
    """
    try:
        reader = Reader(answer)
        reader.take("i")  # correlation
        if error := reader.take("h"):
            raise ValueError(f"the broker answered ApiVersions with error code {error}")
        for _ in range(reader.varint() - 1):
            reader.take("hhh")
            reader.tags()
        reader.take("i")  # throttle time
        fields = {}
        for _ in range(reader.varint()):
            tag = reader.varint()
            fields[tag] = reader.raw(reader.varint())
        epoch = struct.unpack(">q", fields[_EPOCH])[0] if _EPOCH in fields else -1
        if epoch < 0:
            return None
        return Finalized(epoch, _levels(Reader(fields.get(_FINALIZED, b"\1"))))
    except (struct.error, UnicodeError) as error:
        raise ValueError("an ApiVersions answer is truncated") from error


def finalized(answer: bytes) -> dict[str, int] | None:
    """Returns feature name -> level for the finalized features in an ApiVersions response: see `reported`."""
    found = reported(answer)
    return None if found is None else dict(found.levels)


def _levels(reader: Reader) -> dict[str, int]:
    levels = {}
    for _ in range(reader.varint() - 1):
        name = reader.compact_text()
        most, _least = reader.take("hh")
        levels[name] = most
        reader.tags()
    return levels
