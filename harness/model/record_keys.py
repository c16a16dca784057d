"""The keys of records in compacted topics: which key a value has, and which values are tombstones.

Both follow from the value alone, so a history needs no further columns. Successive values of a partition go to its
record keys in turn, and every fifth value is a tombstone: a record without a value, which deletes its key.
"""

from __future__ import annotations

from typing import Final

TOMBSTONE_EVERY: Final = 5


def record_key(value: int, count: int) -> bytes:
    """Returns the record key of a value. `count` is the number of record keys in each partition."""
    return b"k%d" % (value % count)


def is_tombstone(value: int) -> bool:
    return value % TOMBSTONE_EVERY == TOMBSTONE_EVERY - 1
