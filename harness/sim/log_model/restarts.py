"""What the log model has after a restart, and after another replica has become the leader.

Rules, each with its source:
- Clean: everything is as it was (Bradstreet and Wong).
- Killed: what was appended is there, as the operating system holds it. High watermark and log start are what
  their checkpoints said last (`replica.high.watermark.checkpoint.interval.ms`,
  `log.flush.start.offset.checkpoint.interval.ms`), but not before the first segment: the two cases in which
  they go back. With followers in sync a new leader hides both.
- Power lost: as killed, and the log ends where it was on disk last. A segment is on disk once it is rolled
  (Kafka documentation, "Log"). A log that ends before its log start begins anew there, empty.
- A new leader has everything that was below the high watermark, also where a kill took that back; of what is
  above it may lack a tail (KIP-101).
- Copies to the remote tier that were not committed are forgotten.
"""

from __future__ import annotations

from typing import Final

from harness.sim.log_model.append import truncate
from harness.sim.log_model.partition import Partition
from harness.sim.log_model.segments import Segment

CLEAN: Final = "clean"
POWER: Final = "power"


def checkpoint(log: Partition) -> None:
    """Write high watermark and log start to their checkpoints."""
    log.saved_high, log.saved_start = log.high_watermark, log.start


def flush(log: Partition) -> int:
    """Bring everything to disk; log end."""
    log.flushed = log.end
    return log.end


def restart(log: Partition, how: str) -> int:
    """End the broker (CLEAN, POWER or "kill"), and start it again; where the log was cut off: its end, if nowhere."""
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
        _begin_anew(log)
    log.high_watermark = min(high, log.end)
    return cut


def _first(log: Partition) -> int:
    """The first offset from which the log has everything, locally or in the remote tier."""
    first = log.segments[0].base
    for copy in reversed(log.remote):
        if copy.committed and copy.end >= first:
            first = min(first, copy.base)
    return first


def _begin_anew(log: Partition) -> None:
    log.segments = [Segment(log.start, log.now, log.now)]
    log.end = log.flushed = log.cleaned = log.replicated = log.start
    log.open, log.ended = {}, []


def elect(log: Partition, offset: int) -> int:
    """Another replica leads, whose log ends with the batch before `offset`, or that holds it; its end."""
    log.remote = [copy for copy in log.remote if copy.committed]
    end = max(offset, log.replicated)
    for batch in log.batches():
        if batch.base < end <= batch.last:
            end = batch.last + 1
    end = min(end, log.end)
    truncate(log, end)
    return end
