"""Changes the finalized levels of features (KIP-584, KIP-1022), and decodes the levels in a formatted storage.

UpdateFeatures, version 1
  Request   int32 timeout ms | [compact string feature, int16 level, int8 upgrade type, tags] | bool validate only |
            tags
  Response  int32 throttle | int16 error | nullable string message |
            [compact string feature, int16 error, nullable string message, tags] | tags
FeatureLevelRecord, type 12 of the metadata log: varint frame version 1, varint type, varint version 0 |
            compact string name, int16 level | tags
Source: https://kafka.apache.org/protocol; Kafka's FeatureLevelRecord.json
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from harness.protocol import record_batch, records
from harness.protocol.admin_requests import Failure, opening
from harness.protocol.primitives import TAGS, Reader, compact_array, compact_text, head

UPDATE_FEATURES: Final = 57
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
_FEATURE_LEVEL: Final = 12


def request(levels: Mapping[str, int], upgrade_type: int, timeout_s: float) -> bytes:
    """Encodes a request that sets the finalized level of each feature. Level 0 disables a feature."""
    rows = [compact_text(name) + struct.pack(">hb", level, upgrade_type) + TAGS for name, level in levels.items()]
    timeout_ms = struct.pack(">i", int(timeout_s * 1000))
    return head(UPDATE_FEATURES, 1) + TAGS + timeout_ms + compact_array(rows) + b"\0" + TAGS


def answer(response: bytes) -> Failure:
    """Returns (code, message) of the first error in an UpdateFeatures response; (0, "") without an error.

    Raises ValueError if the response is truncated.
    """
    try:
        reader, first = opening(response)
        failures = [first]
        for _ in range(reader.varint() - 1):
            name, error, message = reader.compact_text(), reader.take("h"), reader.compact_text()
            failures.append((error, f"{name}: {message}"))
            reader.tags()
    except struct.error as error:
        raise ValueError("an UpdateFeatures answer is truncated") from error
    return next((each for each in failures if each[0]), (0, ""))


def levels_in(bootstrap: bytes) -> dict[str, int]:
    """Returns feature -> level of the records in a bootstrap.checkpoint, or in a snapshot of the metadata log.

    The last record of a feature counts. Features at level 0 are left out.
    """
    found: dict[str, int] = {}
    at = 0
    while at + record_batch.FROM_LENGTH <= len(bootstrap):
        size = record_batch.FROM_LENGTH + struct.unpack_from(">i", bootstrap, at + record_batch.LENGTH_AT)[0]
        batch = record_batch.parse(bootstrap[at : at + size], at)
        for record in records.records(batch) if batch is not None and not batch.control else ():
            found |= _level(record.value or b"")
        at += max(size, record_batch.FROM_LENGTH)
    return {name: level for name, level in found.items() if level}


def _level(value: bytes) -> dict[str, int]:
    """Returns {feature: level} of a metadata record; {} if it is of another type."""
    reader = Reader(value)
    with suppress(struct.error):
        _frame, kind, _version = reader.varint(), reader.varint(), reader.varint()
        if kind == _FEATURE_LEVEL:
            name = reader.compact_text()
            return {name: reader.take("h")}
    return {}
