"""What to work on, what to keep, and what to commit: the state of one instance, without any effect.

Each partition has a stream. Streams ask for records; what is polled for one that has asked is handed to it,
and is then work until it is flushed; the rest is kept ahead. Every rebalance restarts all streams: requests
of before are void. A partition that is revoked is remembered, with what was read ahead of it, until the next
assignment: if it comes back, and the group's committed offset says that nobody else has worked on it, reading
goes on where it stood.

In every flush half of the streams take all that comes, and half take one portion only, by turns. So there is
always something asked for and something read ahead, as there is where consumers are slower than the log.

What is produced is checked for gaps: `lost` has those between two portions of a partition, and whether the
records were given up with a flush, or never came to their stream. Input topics must have no holes of their
own for that, as those have that are written without transactions and not compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from harness.model.transforms import outputs
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Mark, Options, Output, Partition, Record
from harness.pipeline_app.streams import Chunk, Stream, Work, counts_of, state_of

Emit = Callable[..., None]
BEGINNING: Final = 0
LOST_SHOWN: Final = 20


class Heart:
    """The state of one instance. `emit(event, partition, **fields)` tells what happened."""

    def __init__(self, options: Options, emit: Emit) -> None:
        self._options, self._mistake, self._emit = options, options.mistake, emit
        self.streams: dict[Partition, Stream] = {}
        self.kept: dict[Partition, Stream] = {}
        self.work: dict[Partition, Work] = {}
        self.paused: set[Partition] = set()
        self.lost: list[dict[str, Any]] = []  # what the self-check has found, the latest
        self._requested: dict[Partition, int] = {}  # the restart whose stream asks
        self._restart, self._restarted, self._flushes = 0, False, 0

    # --- rebalances ---

    def revoked(self, partitions: Iterable[Partition], lost: bool) -> None:
        """They are gone, and with them the work on them that was not flushed."""
        late = (mistakes.PRODUCE_AFTER, mistakes.WRONG_GENERATION)
        for at in partitions:
            stream = self.streams.pop(at, None)
            self.paused.discard(at)
            if stream is None:
                continue
            if self._mistake not in late or lost:
                self._tell_dropped(at, self.work.pop(at, Work(stream)).chunks)
            if lost:
                self._tell_dropped(at, stream.ahead)
                continue
            if self._mistake == mistakes.BUFFER_DROPPED:
                self._tell_dropped(at, stream.ahead)
                stream.ahead = []
            self.kept[at] = stream
        if self._mistake != mistakes.STALE_REQUESTS:
            self._requested.clear()
        if self.streams:  # those that stay: an assignment need not follow
            self._restart += 1

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> dict[Partition, int]:
        """Where each is to be read from. What is not among them is forgotten."""
        self._restart += 1
        self._restarted = True
        if self._mistake not in (mistakes.STALE_REQUESTS, mistakes.REQUESTS_BETWEEN):
            self._requested.clear()
        for at, mark in marks.items():
            offset, state = mark or Mark(BEGINNING)
            stream = self.kept.pop(at, None)
            if stream is None or stream.taken != offset:
                if stream is not None:
                    self._tell_dropped(at, stream.ahead)
                stream = Stream(offset, offset, offset, state, counts_of(state), done=offset)
            self.streams[at] = stream
            self._emit("position", at, offset=stream.position)
            self._tell("buffered", at, stream.ahead)
        for at, stream in self.kept.items():
            self._tell_dropped(at, stream.ahead)
        self.kept.clear()
        return {at: self.streams[at].position for at in marks}

    # --- records ---

    def ask(self) -> None:
        """The streams ask for more: half of them always, the others until they have something to work on."""
        if not self.streams and self._mistake == mistakes.REQUESTS_BETWEEN:
            for at in self.kept:
                self._requested.setdefault(at, self._restart)
        for at in self.streams:
            if (at[1] + self._flushes) % 2 == 0 or at not in self.work:
                self._requested.setdefault(at, self._restart)

    def polled(self, records_by_partition: Mapping[Partition, list[Record]]) -> None:
        """What a poll returned: handed to who asked, the rest kept."""
        if self._restarted and self._mistake == mistakes.BUFFER_CLEARED:
            for at, stream in self.streams.items():
                self._tell_dropped(at, stream.ahead)
                stream.ahead = []
        self._restarted = False
        fresh: list[tuple[Partition, Stream, Chunk]] = []
        for at, records in records_by_partition.items():
            polled_of = self.streams.get(at)
            if polled_of is None or not records:
                continue
            chunk = Chunk(records)
            polled_of.ahead.append(chunk)
            polled_of.position = chunk.next
            self._tell("polled", at, [chunk])
            fresh.append((at, polled_of, chunk))
        self.hand()
        for at, stream, chunk in fresh:
            if stream.ahead and stream.ahead[-1] is chunk:
                self._tell("buffered", at, [chunk])

    def hand(self) -> None:
        """Hand what is there to the streams that have asked for it."""
        for at, restart in list(self._requested.items()):
            stream = self.streams.get(at)
            if stream is None or not stream.ahead:
                continue
            del self._requested[at]
            chunks, stream.ahead = stream.ahead, []
            stream.taken = chunks[-1].next
            if restart == self._restart:  # else it is gone to a stream that has ended
                self._work_of(at, stream).chunks.extend(chunks)

    def _work_of(self, at: Partition, stream: Stream) -> Work:
        """A partition that has come back starts anew, whatever a mistake has left."""
        work = self.work.get(at)
        if work is None:
            work = self.work[at] = Work(stream)
        work.stream = stream
        return work

    def working(self) -> int:
        """Records of work."""
        return sum(len(chunk.records) for work in self.work.values() for chunk in work.chunks)

    def turn(self) -> tuple[list[Partition], list[Partition]]:
        """(to pause, to resume) now, by how much is read ahead."""
        most = self._options.ahead_max
        sizes = {at: stream.size() for at, stream in self.streams.items()}
        stop = [at for at, size in sizes.items() if size >= most and at not in self.paused]
        go = [at for at, size in sizes.items() if 2 * size < most and at in self.paused]
        self.paused = (self.paused | set(stop)) - set(go)
        return stop, go

    # --- flushes ---

    def outputs(self) -> list[Output]:
        """What the work makes, in the order of the input of each partition."""
        made: list[Output] = []
        transform = self._options.transform
        for work in self.work.values():
            work.counts = dict(work.stream.counts)
            if transform == "identity":
                made += [(id, key, 0) for chunk in work.chunks for _, id, key in chunk.records]
                continue
            for chunk in work.chunks:
                for _, id, key in chunk.records:
                    for n, made_key, value in outputs(transform, id, key, work.counts.get(key, 0)):
                        made.append((id, made_key, n))
                        if transform == "aggregate":
                            work.counts[key] = value
        return made

    def marks(self) -> dict[Partition, Mark]:
        """What is to be committed when the work has been produced."""
        marks = {}
        for at, work in self.work.items():
            if self.streams.get(at) is not work.stream and self._mistake != mistakes.WRONG_GENERATION:
                continue
            offset = work.stream.taken
            if self._mistake == mistakes.COMMIT_BUFFERED:
                offset = work.stream.position
            marks[at] = Mark(offset, state_of(work.counts))
        return marks

    def tell_produced(self) -> None:
        for at, work in self.work.items():
            self._tell("produced", at, work.chunks)

    def produced(self) -> None:
        """The work is done; whether it is committed is another matter."""
        for at, work in self.work.items():
            work.stream.counts = work.counts
            self._check(at, work)
        self.work.clear()
        self._flushes += 1

    def _check(self, at: Partition, work: Work) -> None:
        """The self-check: each portion begins where the last one ended that was produced."""
        stream = work.stream
        for chunk in work.chunks:
            if chunk.first > stream.done:
                stage = "flush" if chunk.first <= stream.given_up else "stream"
                loss = {"stage": stage, "topic": at[0], "partition": at[1]}
                self.lost = [*self.lost, loss | {"first": stream.done, "last": chunk.first - 1}][-LOST_SHOWN:]
            stream.done = max(stream.done, chunk.next)

    def committed(self, marks: Mapping[Partition, Mark]) -> None:
        """The group has these offsets now."""
        for at, mark in marks.items():
            if at in self.streams:
                self.streams[at].stored, self.streams[at].state = mark
            self._emit("committed", at, offset=mark.offset)

    def back(self) -> dict[Partition, int]:
        """The work is given up: where the consumer must go back to, for what is still held."""
        given_up, self.work = self.work, {}
        self._flushes += 1
        for at, work in given_up.items():
            self._tell_dropped(at, work.chunks)
            if work.chunks:
                work.stream.given_up = work.chunks[-1].next
        if self._mistake == mistakes.NO_REWIND:
            return {}
        seeks: dict[Partition, int] = {}
        for at, work in given_up.items():
            stream = work.stream
            self._tell_dropped(at, stream.ahead)
            stream.ahead, stream.taken, stream.position = [], stream.stored, stream.stored
            stream.counts, stream.done = counts_of(stream.state), stream.stored
            stream.given_up = 0
            if self.streams.get(at) is stream:
                seeks[at] = stream.stored
                self._emit("position", at, offset=stream.stored)
        return seeks

    # --- telling ---

    def _tell(self, event: str, at: Partition, chunks: list[Chunk]) -> None:
        if not chunks:
            return
        first, last = chunks[0].first, chunks[-1].next - 1
        count = sum(len(chunk.records) for chunk in chunks)
        self._emit(event, at, first=first, last=last, count=count, gaps=last - first + 1 - count)

    def _tell_dropped(self, at: Partition, chunks: list[Chunk]) -> None:
        self._tell("dropped", at, chunks)
