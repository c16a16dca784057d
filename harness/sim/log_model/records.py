"""Records, batches and topic settings of the log model, as plain values.

Rules, each with its source:
- A batch is the unit of appending, of idempotence and of fetching. Its offsets have no gaps when it is written, and
  it keeps its first and last offset when compaction removes records from it (KIP-98, message format 2).
- A control batch (a transaction marker) takes one offset and is never returned to an application (KIP-98).
- Message format 0 has no timestamps: the timestamp of such a record is -1 (KIP-32).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

NO_TIMESTAMP: Final = -1
MARKER_BYTES: Final = 78  # a control batch: header 61, one record with a four-byte key and six-byte value
_HEADER_BYTES: Final = 61
_RECORD_BYTES: Final = 7
UNLIMITED: Final = -1
AS_ALL: Final = -2  # local retention: the same as the topic's


@dataclass(frozen=True, slots=True)
class LogSettings:
    """A topic's settings. Sizes are in bytes and times in ms; -1 means no limit.

    cleanup  delete, compact, or compact,delete
    tiered   remote.storage.enable; not for compacted topics (KIP-405)
    local_*  a retention limit of the local log; -2: the same as the setting without the prefix `local_`
    """

    partitions: int = 1
    segment_bytes: int = 1000
    segment_ms: int = 10_000
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    local_retention_ms: int = AS_ALL
    local_retention_bytes: int = AS_ALL
    delete_retention_ms: int = 1000
    cleanup: str = "delete"
    tiered: bool = False

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup


@dataclass(frozen=True, slots=True)
class Record:
    """A record at an offset. The timestamp is in ms; a value of None is a tombstone."""

    offset: int
    timestamp: int
    key: str | None
    value: str | None

    @property
    def size(self) -> int:
        return _RECORD_BYTES + len(self.key or "") + len(self.value or "")

    def plain(self) -> list[Any]:
        return [self.offset, self.timestamp, self.key, self.value]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch from offset `base` to `last`, both included.

    producer  the id of the idempotent producer; -1: none
    epoch     the epoch of the idempotent producer; -1: none
    sequence  the sequence number of the first record; -1: none
    control   "commit" or "abort" for the marker of the producer's transaction, otherwise ""
    horizon   time in ms from which compaction may remove the batch's tombstones, or the marker (KIP-534); -1: not set
    """

    base: int
    last: int
    records: tuple[Record, ...]
    size: int
    max_timestamp: int
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: str = ""
    horizon: int = -1


def batch_size(records: Sequence[Record]) -> int:
    """Returns the size in bytes of a batch with these records on disk. The model does not compress batches."""
    return _HEADER_BYTES + sum(record.size for record in records)


def latest_timestamp(records: Sequence[Record]) -> int:
    return max((record.timestamp for record in records), default=NO_TIMESTAMP)
