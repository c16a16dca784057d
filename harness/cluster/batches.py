"""Where the record batches of a segment lie, as bytes: enough to damage one on purpose.

Of a record batch, version 2: base offset (8 bytes), length of the rest (4), leader epoch (4), magic (1),
CRC (4), and then all that the CRC covers. Source: Kafka documentation, 5.3 (record batch).
"""

from __future__ import annotations

from typing import Final

LENGTH_AT: Final = 8
FROM_LENGTH: Final = 12
# A flipped leader epoch is noticed by nobody, and the replica may never be in sync again: docs/findings.md.
COVERED_AT: Final = 21
HEAD: Final = 61


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
