"""Tiered storage of the log model (KIP-405): copying segments, and retention of the remote tier.

Rules, each with its source:
- The next segment to copy is the first inactive one that is not copied yet and ends above the log start offset; it is
  copied only if its end is not above the last stable offset (KIP-405; in Bradstreet and Wong, the high watermark).
- A copy is valid only once it is committed; until then, its local segment is not deleted (Bradstreet and Wong). A
  restart or an election discards uncommitted copies; their segments are then copied again.
- Remote segments are deleted from the oldest on, up to the first segment that is kept. A segment is deleted if it is
  below the log start offset, beyond the time limit, or beyond the size limit. The size limit applies to the remote
  segments plus those that only the local log has. After a deletion, the log starts at the first remaining segment. A
  segment that ends above the high watermark is never deleted, not even if a kill has moved the high watermark back
  (KIP-405).
"""

from __future__ import annotations

from dataclasses import replace

from harness.sim.log_model.partition import Partition
from harness.sim.log_model.remote_segments import RemoteSegment
from harness.sim.log_model.retention import forget


def upload(log: Partition) -> tuple[int, int] | None:
    """Copies the next segment. Returns the segment's offsets [base, end), or None if there is no segment to copy."""
    if not log.settings.tiered:
        return None
    copied_end = log.remote[-1].end if log.remote else 0
    upper = log.end if "tiered-above-hw" in log.bugs else log.last_stable
    for at, segment in enumerate(log.segments[:-1]):
        end = log.segment_end(at)
        if segment.base < copied_end or end <= log.start:
            continue
        if end > upper:
            return None
        copy = RemoteSegment(
            segment.base,
            end,
            segment.size,
            segment.max_timestamp,
            segment.largest_timestamp,
            tuple(segment.batches),
        )
        log.remote.append(copy)
        return copy.base, copy.end
    return None


def commit(log: Partition) -> int:
    """Commits all copies. Returns the offset after the last one in the remote tier; 0 if the remote tier is empty."""
    log.remote = [replace(copy, committed=True) for copy in log.remote]
    return log.copied


def check(log: Partition) -> int:
    """Runs one retention check of the remote tier. Returns the number of deleted segments."""
    settings, copied = log.settings, log.copied
    only_local = sum(segment.size for segment in log.segments if segment.base >= copied)
    spare = only_local + sum(copy.size for copy in log.remote if copy.committed) - settings.retention_bytes
    deleted = 0
    for copy in log.remote:
        small = settings.retention_bytes >= 0 and spare >= copy.size
        old = 0 <= settings.retention_ms < log.now - copy.largest_timestamp
        due = copy.end <= log.start or small or old
        if not copy.committed or not due or copy.end > log.high_watermark:
            break
        spare -= copy.size
        deleted += 1
        log.start = max(log.start, copy.end)
    log.remote = log.remote[deleted:]
    if deleted:
        forget(log)
    return deleted
