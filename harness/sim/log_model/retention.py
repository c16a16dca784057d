"""What retention and DeleteRecords take away from the log model.

Rules, each with its source:
- A pass takes segments from the oldest on, up to the first that stays. Three passes, one after another: those
  below log start; those beyond the size; those beyond the time. In this order a second pass finds nothing
  more (since KAFKA-12177; before, log start came last, and it did).
- Size: while what is left without the segment is still `retention.bytes` or more. Time: where the segment's
  largest timestamp is more than `retention.ms` ago. A compacted topic that does not delete knows neither.
- Nothing at or above the high watermark goes. The active segment may go by size or time, unless it is
  empty: a new one is rolled first, at log end (Bradstreet and Wong). It never goes for lying below log
  start alone.
- Log start follows what is deleted, and never goes back (KIP-107).
- DeleteRecords moves log start to any offset up to the high watermark, -1 meaning that; lower than log start
  it does nothing; beyond, it is refused. A topic that does not delete refuses it (KIP-107).
- With tiered storage the limits are the local ones; only segments whose copies are committed go, or those
  below log start; and log start stays: the local log begins later. The active segment is rolled where it
  would go, and can be copied then (KIP-405). Brokers ask only whether the remote tier holds an offset as
  high as the segment's last; the model asks for the segment itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.sim.log_model.append import roll
from harness.sim.log_model.partition import Partition
from harness.sim.log_model.records import AS_ALL, LogSettings
from harness.sim.log_model.segments import Segment

Goes = Callable[[Segment, int | None], bool]  # the segment, the base offset of the next

POLICY: Final = "POLICY_VIOLATION"
OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"


def local_limits(settings: LogSettings) -> tuple[int, int]:
    """Retention of the local log: (ms, bytes), -1 for no limit."""
    ms, size = settings.retention_ms, settings.retention_bytes
    if settings.tiered and settings.local_retention_ms != AS_ALL:
        ms = settings.local_retention_ms
    if settings.tiered and settings.local_retention_bytes != AS_ALL:
        size = settings.local_retention_bytes
    return ms, size


def check(log: Partition) -> int:
    """One retention pass over the local log; how many segments went."""
    passes = [_below_start]
    if log.settings.deletes:
        passes = [_below_start, _beyond_size, _beyond_time]
        if "retention-not-idempotent" in log.bugs:
            passes = [_beyond_time, _beyond_size, _below_start]
    gone = sum(_delete(log, take(log)) for take in passes)
    forget(log)
    return gone


def _below_start(log: Partition) -> Goes:
    limit = log.local_start if log.settings.tiered else log.start
    return lambda segment, after: after is not None and after <= limit


def _beyond_size(log: Partition) -> Goes:
    limit = local_limits(log.settings)[1]
    spare = [sum(segment.size for segment in log.segments) - limit]

    def goes(segment: Segment, after: int | None) -> bool:
        if limit < 0 or spare[0] < segment.size:
            return False
        spare[0] -= segment.size
        return True

    return goes


def _beyond_time(log: Partition) -> Goes:
    limit = local_limits(log.settings)[0]
    return lambda segment, after: 0 <= limit < log.now - segment.largest_timestamp


def _delete(log: Partition, goes: Goes) -> int:
    """Delete segments from the oldest on while they may go and `goes` says so."""
    count, rolls = 0, False
    for at, segment in enumerate(log.segments):
        active, end = at + 1 == len(log.segments), log.segment_end(at)
        due = log.high_watermark >= end and goes(segment, None if active else end)
        rolls = rolls or (due and active and log.settings.tiered and bool(segment.batches))
        if not due or (active and segment.base == end) or not _may_go(log, segment, end, active):
            break
        count += 1
    if count == len(log.segments):
        roll(log)
        if "active-rolled-wrong" in log.bugs:
            log.active.base = log.end = log.segments[-2].base
            log.high_watermark = min(log.high_watermark, log.end)
    elif rolls:
        roll(log)
    if count:
        del log.segments[:count]
        if not log.settings.tiered:
            log.start = max(log.start, log.segments[0].base)
    return count


def _may_go(log: Partition, segment: Segment, end: int, active: bool) -> bool:
    """Whether a tiered log can do without the local segment that ends at `end`."""
    if not log.settings.tiered or (not active and log.start >= end):
        return True
    early = "tiered-deleted-early" in log.bugs
    return any(copy.base <= segment.base < end <= copy.end for copy in log.remote if copy.committed or early)


def forget(log: Partition) -> None:
    """Drop what is known of transactions that nobody can read any more."""
    low = min(log.start, log.saved_start, log.high_watermark)
    if log.ended and log.ended[0].marker < low:
        log.ended = [ended for ended in log.ended if ended.marker >= low]


def delete_records(log: Partition, offset: int) -> int | str:
    """DeleteRecords up to `offset`; log start after it, or the error's name."""
    if not log.settings.deletes:
        return POLICY
    target = log.high_watermark if offset == -1 else offset
    if not 0 <= target <= log.high_watermark:
        return OUT_OF_RANGE
    log.start = max(log.start, target)
    return log.start
