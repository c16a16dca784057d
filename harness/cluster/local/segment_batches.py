"""Where the record batches of a segment lie, as bytes: enough to damage one, or to know a segment's extent.

Of a record batch, version 2: base offset (8 bytes), length of the rest (4), leader epoch (4), magic (1),
CRC (4), and then all that the CRC covers: attributes (2), last offset less the base (4), first and largest
timestamp (8 each) and more. Source: Kafka documentation, 5.3 (record batch).
"""

from __future__ import annotations

import struct
from typing import Final

LENGTH_AT: Final = 8
FROM_LENGTH: Final = 12
# A flipped leader epoch is noticed by nobody, and the replica may never be in sync again: docs/findings.md.
COVERED_AT: Final = 21
HEAD: Final = 61
CONTROL: Final = 0x20
_EXTENT: Final = struct.Struct(">hi8xq")  # from COVERED_AT


def covered(content: bytes | bytearray) -> list[range]:
    """Of each whole record batch of a segment, the places that its checksum covers."""
    found, at = [], 0
    while at + HEAD <= len(content):
        length = int.from_bytes(content[at + LENGTH_AT : at + FROM_LENGTH], "big")
        end = at + FROM_LENGTH + length
        if length < HEAD - FROM_LENGTH or end > len(content):
            break
        found.append(range(at + COVERED_AT, end))
        at = end
    return found


def extent(content: bytes) -> tuple[int, int | None]:
    """One past a segment's last offset, and its records' largest timestamp in ms; None with control batches,
    whose timestamps nobody outside knows. Raises ValueError for a segment without a whole batch."""
    end, largest, control = -1, -1, False
    for place in covered(content):
        attributes, last, timestamp = _EXTENT.unpack_from(content, place.start)
        end = int.from_bytes(content[place.start - COVERED_AT :][:LENGTH_AT], "big") + last + 1
        largest, control = max(largest, timestamp), control or bool(attributes & CONTROL)
    if end < 0:
        raise ValueError("no whole batch")
    return end, None if control else largest
