"""Restarts and leader elections of the log model.

Rules, each with its source:
- Clean restart: nothing changes (Bradstreet and Wong).
- Kill: all appended records remain, because the operating system has them. The high watermark and the log start offset
  go back to their last checkpoints (`replica.high.watermark.checkpoint.interval.ms`,
  `log.flush.start.offset.checkpoint.interval.ms`), but not below the first segment. Clients see this only without
  in-sync followers; otherwise, one of the followers becomes leader.
- Power failure: the same happens as in a kill, and the log also loses all records that were not on disk. A segment is
  on disk once the next one has been started (Kafka documentation, "Log"). If the remaining log would end before the log
  start offset, it is replaced with an empty log that starts at the log start offset.
- A new leader has all records below the highest value that the high watermark has had, even if a kill has moved it
  back. The new leader may lack the last records above that value (KIP-101).
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
    """Writes the high watermark and the log start offset to their checkpoints."""
    log.saved_high, log.saved_start = log.high_watermark, log.start


def flush(log: Partition) -> int:
    """Flushes all records to disk. Returns the log end offset."""
    log.flushed = log.end
    return log.end


def restart(log: Partition, how: str) -> int:
    """Stops the broker (`how`: CLEAN, POWER or "kill") and starts it again.

    Returns the offset to which the log was truncated, or the log end offset if nothing was truncated.
    """
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
    """Returns the lowest offset from which on the local log and the remote tier together have no gap."""
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
    """Elects a new leader, and truncates the log to what this leader has. Returns the new log end offset.

    The log end offset may be higher than `offset`, because the new leader has all replicated records and only whole
    batches.
    """
    log.remote = [copy for copy in log.remote if copy.committed]
    end = max(offset, log.replicated)
    for batch in log.batches():
        if batch.base < end <= batch.last:
            end = batch.last + 1
    end = min(end, log.end)
    truncate(log, end)
    return end
