"""Segments of the log model: their state, and when a new one is rolled.

Rules, each with its source (Kafka's topic settings, and Bradstreet and Wong):
- A segment is rolled (a new one is started) before an append that would make it larger than `segment.bytes`. It is also
  rolled before an append whose largest timestamp is more than `segment.ms` after the largest timestamp of the segment's
  first batch. If the append or the first batch has no timestamp, the segment is rolled if it is older than `segment.ms`
  by the broker's clock. An empty segment is never rolled (KIP-33).
- The base offset of the new segment is the log end offset. Records are appended only to the last, active segment.
- The largest timestamp of a segment is the largest timestamp of its records. If no record has a timestamp, it is the
  time of the last write to the segment (KIP-33).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.sim.log_model.records import Batch, LogSettings


@dataclass(slots=True)
class Segment:
    """A local segment.

    created        when it was created, in ms of the broker's clock
    modified       when it was last written to, in ms of the broker's clock
    max_timestamp  the largest timestamp of its records in ms; -1 if no record has one
    """

    base: int
    created: int
    modified: int
    batches: list[Batch] = field(default_factory=list)
    size: int = 0
    max_timestamp: int = -1

    def add(self, batch: Batch, now: int) -> None:
        self.batches.append(batch)
        self.size += batch.size
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        self.modified = now

    @property
    def largest_timestamp(self) -> int:
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified

    def truncate(self, end: int) -> None:
        """Removes all batches from offset `end` on, which must be the base offset of a batch."""
        self.batches = [batch for batch in self.batches if batch.last < end]
        self.size = sum(batch.size for batch in self.batches)
        self.max_timestamp = max((batch.max_timestamp for batch in self.batches), default=-1)


def must_roll(segment: Segment, size: int, max_timestamp: int, settings: LogSettings, now: int) -> bool:
    """Returns whether a batch must go to a new segment.

    `size` is the batch's size in bytes, `max_timestamp` its largest timestamp in ms.
    """
    if segment.size == 0:
        return False
    if segment.size > settings.segment_bytes - size:
        return True
    first = segment.batches[0].max_timestamp if segment.batches else -1
    waited = max_timestamp - first if first >= 0 and max_timestamp >= 0 else now - segment.created
    return waited > settings.segment_ms
