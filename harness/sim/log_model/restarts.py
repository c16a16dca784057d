"""Restarts and leader elections of the log model.

Rules, each with its source:
- Clean restart: nothing changes (Bradstreet and Wong).
- Kill: all appended records remain, because the operating system has them. The high watermark and the log start
  offset go back to their last checkpoints (`replica.high.watermark.checkpoint.interval.ms`,
  `log.flush.start.offset.checkpoint.interval.ms`), but not below the first segment. Only in these two cases do they
  go back; with in-sync followers, the new leader hides it.
- Power failure: like a kill, and the log also loses all records that were not on disk. A segment is on disk once it
  is rolled (Kafka documentation, "Log"). If the log would end before its log start offset, it restarts there, empty.
- A new leader has all records below the high watermark, even if a kill moved that back; it may lack the last records
  above it (KIP-101).
- Copies to the remote tier that were not committed are discarded.
"""

from __future__ import annotations

from typing import Final

from harness.sim.log_model.append import truncate
from harness.sim.log_model.partition import Partition
from harness.sim.log_model.segments import Segment

CLEAN: Final = "clean"
POWER: Final = "power"


def checkpoint(log: Partition) -> None:
    """Write the high watermark and the log start offset to their checkpoints."""
    log.saved_high, log.saved_start = log.high_watermark, log.start


def flush(log: Partition) -> int:
    """Flush all records to disk. Returns the log end offset."""
    log.flushed = log.end
    return log.end


def restart(log: Partition, how: str) -> int:
    """Stop the broker (CLEAN, POWER or "kill") and start it again. Returns the offset to which the log was truncated;
    the log end offset if it was not."""
    log.remote = [copy for copy in log.remote if copy.committed]
    if how == CLEAN:
        if "start-goes-back" in log.bugs:
            log.start = _first(log)
        log.flushed = log.end
        checkpoint(log)
        return log.end
    log.start = max(min(log.saved_start, log.start), _first(log))
    high = max(min(log.saved_high, log.high_watermark), log.start)
    cut = log.flushed if how == POWER else log.end
    truncate(log, cut)
    if log.start > log.end:
        _restart_empty(log)
    log.high_watermark = min(high, log.end)
    return cut


def _first(log: Partition) -> int:
    """Return the lowest offset from which the log is complete, locally or in the remote tier."""
    first = log.segments[0].base
    for copy in reversed(log.remote):
        if copy.committed and copy.end >= first:
            first = min(first, copy.base)
    return first


def _restart_empty(log: Partition) -> None:
    log.segments = [Segment(log.start, log.now, log.now)]
    log.end = log.flushed = log.cleaned = log.replicated = log.start
    log.open, log.ended = {}, []


def elect(log: Partition, offset: int) -> int:
    """Make another replica the leader, whose log ends at `offset`, or after the batch that contains it.

    Returns its log end offset.
    """
    log.remote = [copy for copy in log.remote if copy.committed]
    end = max(offset, log.replicated)
    for batch in log.batches():
        if batch.base < end <= batch.last:
            end = batch.last + 1
    end = min(end, log.end)
    truncate(log, end)
    return end
