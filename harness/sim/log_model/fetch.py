"""Reads from the log model: fetches, and offsets by timestamp.

Rules, each with its source:
- The bound of a fetch is the high watermark, or the last stable offset under read_committed (KIP-98). A fetch below the
  log start offset or above the log end offset is out of range. A fetch between the bound and the log end offset is
  empty (Bradstreet and Wong).
- A batch is returned only if all of it is below the bound. On brokers the bound never lies within a batch: followers
  fetch whole batches, so the high watermark advances batch by batch. In the model, the bound may lie within a batch
  (Bradstreet and Wong).
- A fetch ends at the end of a segment, and before the batch that would exceed its byte limit; but a fetch always
  returns at least one batch, however small the limit is (KIP-74). The application gets the records from the requested
  offset on. It gets no markers and, under read_committed, no records of aborted transactions (KIP-98).
- Earliest is the log start offset, latest is the bound (KIP-79, KIP-98); earliest-local is the start of the local log
  (KIP-405), latest-tiered is the last offset in the remote tier, or -1 if that is empty (KIP-1005).
- The lookup of a timestamp T uses the first segment whose largest timestamp is at least T. The result is the offset of
  that segment's first record, at or above the log start offset, whose timestamp is at least T. If this offset is not
  below the bound, there is no result (KIP-79, KIP-33). The remote tier is searched before the local log (KIP-405).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.sim.log_model.partition import Partition
from harness.sim.log_model.records import Batch, Record

OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
COMMITTED: Final = "read_committed"


class Fetched(NamedTuple):
    """The records that the application gets, and the offset at which its next fetch starts."""

    records: list[Record]
    position: int


def bound(log: Partition, isolation: str) -> int:
    return log.last_stable if isolation == COMMITTED else log.high_watermark


def fetch(log: Partition, offset: int, isolation: str, max_bytes: int) -> Fetched | str:
    """Fetches once from `offset` on, up to `max_bytes`. Returns the result, or the name of the error."""
    if not log.start <= offset <= log.end:
        return OUT_OF_RANGE
    upper, size = bound(log, isolation), 0
    taken: list[Batch] = []
    for batches in _from(log, offset):
        for batch in batches[bisect_left(batches, offset, key=_last) :]:
            limit = upper > batch.base if "hw-mid-batch" in log.bugs else upper > batch.last
            full = size + batch.size > max_bytes and (bool(taken) or "small-limit-empty" in log.bugs)
            if not limit or full:
                break
            taken.append(batch)
            size += batch.size
        if taken or (batches and batches[-1].last >= offset):
            break
    position = max(offset, taken[-1].last + 1) if taken else offset
    return Fetched([record for batch in taken for record in _seen(log, batch, offset, isolation)], position)


def _last(batch: Batch) -> int:
    return batch.last


def _from(log: Partition, offset: int) -> Iterator[Sequence[Batch]]:
    """Yields the batches of each segment that contains `offset` or later offsets. Remote segments come first."""
    local = log.local_start
    if offset < local:
        for copy in log.remote:
            if copy.committed and copy.end > offset and copy.base < local:
                yield copy.batches
    for at, segment in enumerate(log.segments):
        if log.segment_end(at) > offset:
            yield segment.batches


def _seen(log: Partition, batch: Batch, offset: int, isolation: str) -> Iterator[Record]:
    if batch.control or (isolation == COMMITTED and "aborted-served" not in log.bugs and log.aborted(batch)):
        return
    yield from (record for record in batch.records if record.offset >= offset)


def by_time(log: Partition, timestamp: int, isolation: str) -> int:
    """Returns the offset of the first record with this timestamp in ms, or a later one; -1 if there is
    no such record.
    """
    found = _by_time(log, timestamp)
    return found if found is not None and found < bound(log, isolation) else -1


def _by_time(log: Partition, timestamp: int) -> int | None:
    local = log.local_start
    for copy in log.remote:
        if copy.committed and log.start < copy.end and copy.base < local and copy.max_timestamp >= timestamp:
            found = _first(copy.batches, timestamp, log.start)
            if found is not None:
                return found
    begin = local if log.settings.tiered else log.start
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            return _first(segment.batches, timestamp, begin)
    return None


def _first(batches: Sequence[Batch], timestamp: int, begin: int) -> int | None:
    for batch in batches:
        if batch.max_timestamp >= timestamp and batch.last >= begin:
            for record in batch.records:
                if record.timestamp >= timestamp and record.offset >= begin:
                    return record.offset
            if batch.control:
                return batch.base
    return None
