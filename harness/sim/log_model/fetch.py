"""Reading from the log model: fetches and offsets by time.

Rules, each with its source:
- A fetch below log start or above log end is out of range; between the bound of its isolation and log end it
  is empty (Bradstreet and Wong). The bound is the high watermark, or the last stable offset for
  read_committed (KIP-98).
- A batch is served only if all of it is below the bound. Followers move the high watermark and fetch whole
  batches, so on brokers the bound lies between batches; here it may lie within one (Bradstreet and Wong).
- A fetch ends with a segment, and with the batch that would exceed its limit of bytes; but one batch always
  comes back, however small the limit is (KIP-74). The application sees its records from the offset asked for
  on, without markers, and without those of aborted transactions under read_committed (KIP-98).
- Earliest is log start; latest is the bound (KIP-79, KIP-98); earliest-local is where the local log begins
  (KIP-405), latest-tiered the last offset in the remote tier, -1 for none (KIP-1005).
- An offset by time is that of the first record from log start on, in the first segment whose largest
  timestamp reaches the time, whose own does; none if that is not below the bound (KIP-79, KIP-33). Where the
  remote tier has such a segment, it is asked first (KIP-405).
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
    """The records that the application sees, and the position after them."""

    records: list[Record]
    position: int


def bound(log: Partition, isolation: str) -> int:
    return log.last_stable if isolation == COMMITTED else log.high_watermark


def fetch(log: Partition, offset: int, isolation: str, max_bytes: int) -> Fetched | str:
    """What one fetch from `offset` with a limit of bytes gives, or the error's name."""
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
    """The batches of each segment that may hold the offset or what comes after it: remote ones first."""
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
    """The offset of the first record of this time (ms) or later; -1 for none."""
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
