"""Retention and DeleteRecords in the log model.

Rules, each with its source:
- A check deletes segments in three passes: those below the log start offset, those beyond the size limit, those beyond
  the time limit. Each pass starts at the oldest segment and stops at the first segment that it keeps. With this order
  of the passes, a second check deletes nothing more. (Before KAFKA-12177, the pass for the log start offset was the
  last one, and a second check could delete more.)
- Size: a segment is deleted if the remaining segments still have `retention.bytes` or more. Time: a segment is deleted
  if its largest timestamp is more than `retention.ms` ago. Neither applies to a topic that is only compacted.
- Nothing at or above the high watermark is deleted. The active segment may be deleted by size or time, unless it is
  empty. Before it is deleted, a new segment is started at the log end offset (Bradstreet and Wong). The active segment
  is never deleted only because it lies below the log start offset.
- After a deletion, the log starts at the first remaining segment. The log start offset never goes back (KIP-107).
- DeleteRecords raises the log start offset to any offset up to the high watermark; -1 means the high watermark. A lower
  offset than the log start offset has no effect, and one above the high watermark is an error. DeleteRecords is also an
  error in a topic that is only compacted (KIP-107).
- With tiered storage the local limits apply, and only segments with committed copies, or below the log start offset,
  are deleted. The log start offset does not change; only the local log starts later. If the active segment exceeds a
  local limit, it is rolled, so that it can be copied (KIP-405). Brokers only check whether the remote tier has an
  offset as high as the segment's last one; the model checks for a copy of the segment itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.sim.log_model.append import roll
from harness.sim.log_model.partition import Partition
from harness.sim.log_model.records import AS_ALL, LogSettings
from harness.sim.log_model.segments import Segment

IsDue = Callable[[Segment, int | None], bool]  # the segment, the base offset of the next

POLICY: Final = "POLICY_VIOLATION"
OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"


def local_limits(settings: LogSettings) -> tuple[int, int]:
    """Returns the retention limits of the local log as (ms, bytes); -1 means no limit."""
    ms, size = settings.retention_ms, settings.retention_bytes
    if settings.tiered and settings.local_retention_ms != AS_ALL:
        ms = settings.local_retention_ms
    if settings.tiered and settings.local_retention_bytes != AS_ALL:
        size = settings.local_retention_bytes
    return ms, size


def check(log: Partition) -> int:
    """Runs one retention check of the local log. Returns the number of deleted segments."""
    passes = [_below_start]
    if log.settings.deletes:
        passes = [_below_start, _beyond_size, _beyond_time]
        if "retention-not-idempotent" in log.bugs:
            passes = [_beyond_time, _beyond_size, _below_start]
    deleted = sum(_delete(log, take(log)) for take in passes)
    forget(log)
    return deleted


def _below_start(log: Partition) -> IsDue:
    limit = log.local_start if log.settings.tiered else log.start
    return lambda segment, after: after is not None and after <= limit


def _beyond_size(log: Partition) -> IsDue:
    limit = local_limits(log.settings)[1]
    spare = [sum(segment.size for segment in log.segments) - limit]

    def is_due(segment: Segment, after: int | None) -> bool:
        if limit < 0 or spare[0] < segment.size:
            return False
        spare[0] -= segment.size
        return True

    return is_due


def _beyond_time(log: Partition) -> IsDue:
    limit = local_limits(log.settings)[0]
    return lambda segment, after: 0 <= limit < log.now - segment.largest_timestamp


def _delete(log: Partition, is_due: IsDue) -> int:
    """Deletes segments from the oldest on.

    Stops at the first one for which `is_due` returns False or the rules forbid it. Returns the number of deleted
    segments.
    """
    count, rolls = 0, False
    for at, segment in enumerate(log.segments):
        active, end = at + 1 == len(log.segments), log.segment_end(at)
        due = log.high_watermark >= end and is_due(segment, None if active else end)
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
    """Returns whether tiered storage allows deleting the local segment that ends at `end`: another copy must exist.

    `active`: whether it is the active segment.
    """
    if not log.settings.tiered or (not active and log.start >= end):
        return True
    early = "tiered-deleted-early" in log.bugs
    return any(copy.base <= segment.base < end <= copy.end for copy in log.remote if copy.committed or early)


def forget(log: Partition) -> None:
    """Forgets the transactions that have ended and whose records can no longer be read."""
    low = min(log.start, log.saved_start, log.high_watermark)
    if log.ended and log.ended[0].marker < low:
        log.ended = [ended for ended in log.ended if ended.marker >= low]


def delete_records(log: Partition, offset: int) -> int | str:
    """Deletes the records below `offset`. Returns the new log start offset, or the name of the error."""
    if not log.settings.deletes:
        return POLICY
    target = log.high_watermark if offset == -1 else offset
    if not 0 <= target <= log.high_watermark:
        return OUT_OF_RANGE
    log.start = max(log.start, target)
    return log.start
