"""The state of one partition in the log model, and the offsets derived from it.

The operations on the state are in the modules `segments`, `producers`, `append`, `fetch`, `retention`, `compaction`,
`tiered_storage`, `restarts` and `model`. Each of these modules lists its rules. Their sources are Kafka's proposals
(KIP-n), Kafka's documentation, and "Bradstreet and Wong": L. Bradstreet, M. Wong, "Property Based Testing Confluent
Cloud Storage for Fun and Safety", Confluent.

The rules of the offsets:
- log start offset <= last stable offset <= high watermark <= log end offset (KIP-98, KIP-107).
- A transaction is undecided if it is open, or if its marker is not yet below the high watermark. The last stable offset
  is the first offset of the earliest undecided transaction or, if there is none, the high watermark. The last stable
  offset is never below the log start offset (KIP-98).
- With tiered storage the local log starts at the first local segment, or at the log start offset if that is higher;
  earlier records are read from the remote tier (KIP-405).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.sim.log_model.producers import Sequences
from harness.sim.log_model.records import Batch, LogSettings
from harness.sim.log_model.remote_segments import RemoteSegment
from harness.sim.log_model.segments import Segment


class Span(NamedTuple):
    """What can be seen of a segment: its offsets [base, end), its size in bytes, the largest timestamp of its records
    in ms (-1: none).
    """

    base: int
    end: int
    size: int
    max_timestamp: int


class View(NamedTuple):
    """The part of a partition's state that can be seen by requests to a broker, and in the files on its disk.

    local      the segments of the local log
    remote     the committed copies in the remote tier
    uploading  the copies in the remote tier that are not committed yet
    """

    start: int
    local_start: int
    high_watermark: int
    last_stable: int
    end: int
    local: tuple[Span, ...]
    remote: tuple[Span, ...]
    uploading: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that ended in this partition: the offsets of its first record and of its marker."""

    producer: int
    first: int
    marker: int
    committed: bool


@dataclass(slots=True)
class Partition:
    """The state of one partition. `now` is the broker's clock in ms; `bugs` are names of `bugs.LOG_BUGS`.

    open         producer -> first offset of its open transaction in this partition
    ended        transactions that ended in this partition
    remote       segments in the remote tier, in offset order; uncommitted ones last
    cleaned      the offset up to which compaction has cleaned the log
    flushed      the offset up to which all records are on disk
    replicated   the highest value that the high watermark has had; a truncation lowers it to the log end offset
    saved_start  the log start offset in its checkpoint
    saved_high   the high watermark in its checkpoint
    """

    settings: LogSettings
    bugs: frozenset[str] = frozenset()
    now: int = 0
    segments: list[Segment] = field(default_factory=list)
    start: int = 0
    high_watermark: int = 0
    end: int = 0
    sequences: Sequences = field(default_factory=Sequences)
    open: dict[int, int] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    remote: list[RemoteSegment] = field(default_factory=list)
    cleaned: int = 0
    flushed: int = 0
    replicated: int = 0
    saved_start: int = 0
    saved_high: int = 0

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def last_stable(self) -> int:
        firsts = list(self.open.values())
        firsts += [ended.first for ended in self.ended if ended.marker >= self.high_watermark]
        return min(self.high_watermark, max(self.start, min(firsts))) if firsts else self.high_watermark

    @property
    def local_start(self) -> int:
        return max(self.start, self.segments[0].base) if self.segments else self.start

    @property
    def copied(self) -> int:
        """The offset after the last one in the remote tier's committed copies; 0 if there are none."""
        return max((copy.end for copy in self.remote if copy.committed), default=0)

    def segment_end(self, at: int) -> int:
        """Returns the offset after the last one of the segment with the index `at`."""
        return self.segments[at + 1].base if at + 1 < len(self.segments) else self.end

    def batches(self) -> Iterator[Batch]:
        """Yields every batch of the local log."""
        for segment in self.segments:
            yield from segment.batches

    def aborted(self, batch: Batch) -> bool:
        """Returns whether the batch belongs to a transaction that was aborted."""
        if not batch.transactional:
            return False
        return any(
            ended.producer == batch.producer and ended.first <= batch.base < ended.marker and not ended.committed
            for ended in self.ended
        )

    def view(self) -> View:
        local = tuple(
            Span(each.base, self.segment_end(at), each.size, each.max_timestamp)
            for at, each in enumerate(self.segments)
        )
        spans = [(Span(copy.base, copy.end, copy.size, copy.max_timestamp), copy.committed) for copy in self.remote]
        return View(
            self.start,
            self.local_start,
            self.high_watermark,
            self.last_stable,
            self.end,
            local,
            tuple(span for span, committed in spans if committed),
            tuple(span for span, committed in spans if not committed),
        )


def new_partition(settings: LogSettings, bugs: frozenset[str] = frozenset()) -> Partition:
    """Returns a partition with one empty segment."""
    return Partition(settings, bugs, segments=[Segment(0, 0, 0)])
