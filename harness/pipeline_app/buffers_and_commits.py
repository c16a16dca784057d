"""The state of one pipeline instance, without effects: what to process, what to buffer, and what to commit.

Each assigned partition has a stream, which requests records. If a stream has requested records, the partition's polled
records are handed to the stream and are its work until the next flush. All other polled records are buffered. Every
rebalance restarts all streams, so that their earlier requests no longer count. A revoked partition is remembered, with
its buffer, until the next assignment. If the instance then gets the partition back, and the group's committed offset
shows that no other member has processed the buffered records, reading continues at the same position.

Between two flushes, half of the streams keep requesting records and the other half request only once; the halves
alternate. So there are always both requests and buffered records, as with consumers that are slower than the log.

The self-check looks for gaps between the offsets of produced records. `lost` lists the gaps, and tells for each gap
whether its records were lost with an abandoned flush or never reached their stream. Therefore the input topics must not
have offset gaps themselves: they are written without transactions and are not compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from harness.model.transforms import outputs
from harness.pipeline_app import mistakes
from harness.pipeline_app.instance_state import Chunk, Stream, Work, counts_of, state_of
from harness.pipeline_app.ports import Mark, Options, Output, Partition, Record

Emit = Callable[..., None]
BEGINNING: Final = 0
LOST_SHOWN: Final = 20


class InstanceState:
    """The state of one instance. Reports events by calling `emit(event, partition, **fields)`.

    streams  the stream of each assigned partition
    kept     the stream of each partition that was revoked since the last assignment
    work     for each partition, what to process in the next flush
    paused   partitions whose fetching is paused
    lost     the latest gaps that the self-check has found
    """

    def __init__(self, options: Options, emit: Emit) -> None:
        self._options, self._mistake, self._emit = options, options.mistake, emit
        self.streams: dict[Partition, Stream] = {}
        self.kept: dict[Partition, Stream] = {}
        self.work: dict[Partition, Work] = {}
        self.paused: set[Partition] = set()
        self.lost: list[dict[str, Any]] = []
        self._requested: dict[Partition, int] = {}  # the number of the restart in which the stream requested
        self._restart, self._restarted, self._flushes = 0, False, 0

    # --- rebalances ---

    def revoked(self, partitions: Iterable[Partition], lost: bool) -> None:
        """Removes revoked partitions, and drops their work that has not been flushed.

        lost  whether other members may already own the partitions; then their buffers are dropped, too
        """
        late = (mistakes.PRODUCE_AFTER, mistakes.WRONG_GENERATION)
        for at in partitions:
            stream = self.streams.pop(at, None)
            self.paused.discard(at)
            if stream is None:
                continue
            if self._mistake not in late or lost:
                self._emit_dropped(at, self.work.pop(at, Work(stream)).chunks)
            if lost:
                self._emit_dropped(at, stream.ahead)
                continue
            if self._mistake == mistakes.BUFFER_DROPPED:
                self._emit_dropped(at, stream.ahead)
                stream.ahead = []
            self.kept[at] = stream
        if self._mistake != mistakes.STALE_REQUESTS:
            self._requested.clear()
        if self.streams:  # some partitions stay, so an assignment need not follow
            self._restart += 1

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> dict[Partition, int]:
        """Adds assigned partitions, and forgets all revoked partitions that are not among them.

        Returns assigned partition -> offset at which to continue reading.

        marks  assigned partition -> committed offset and state (None: nothing committed)
        """
        self._restart += 1
        self._restarted = True
        if self._mistake not in (mistakes.STALE_REQUESTS, mistakes.REQUESTS_BETWEEN):
            self._requested.clear()
        for at, mark in marks.items():
            offset, state = mark or Mark(BEGINNING)
            if self._options.transform != "aggregate":
                state = ""  # the library of another member may have committed metadata of its own
            stream = self.kept.pop(at, None)
            if stream is None or stream.taken != offset:
                if stream is not None:
                    self._emit_dropped(at, stream.ahead)
                stream = Stream(offset, offset, offset, state, counts_of(state), done=offset)
            self.streams[at] = stream
            self._emit("position", at, offset=stream.position)
            self._emit_range("buffered", at, stream.ahead)
        for at, stream in self.kept.items():
            self._emit_dropped(at, stream.ahead)
        self.kept.clear()
        return {at: self.streams[at].position for at in marks}

    # --- records ---

    def request(self) -> None:
        """Lets streams request records: half of the streams always, the other half only if they have no work."""
        if not self.streams and self._mistake == mistakes.REQUESTS_BETWEEN:
            for at in self.kept:
                self._requested.setdefault(at, self._restart)
        for at in self.streams:
            if (at[1] + self._flushes) % 2 == 0 or at not in self.work:
                self._requested.setdefault(at, self._restart)

    def polled(self, records_by_partition: Mapping[Partition, list[Record]]) -> None:
        """Hands the polled records to the streams that have requested records, and buffers the rest."""
        if self._restarted and self._mistake == mistakes.BUFFER_CLEARED:
            for at, stream in self.streams.items():
                self._emit_dropped(at, stream.ahead)
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
            self._emit_range("polled", at, [chunk])
            fresh.append((at, polled_of, chunk))
        self.hand_over()
        for at, stream, chunk in fresh:
            if stream.ahead and stream.ahead[-1] is chunk:
                self._emit_range("buffered", at, [chunk])

    def hand_over(self) -> None:
        """Hands the buffered records of a partition to its stream, if the stream has requested records."""
        for at, restart in list(self._requested.items()):
            stream = self.streams.get(at)
            if stream is None or not stream.ahead:
                continue
            del self._requested[at]
            chunks, stream.ahead = stream.ahead, []
            stream.taken = chunks[-1].next
            if restart == self._restart:  # otherwise the records are lost to a stream that has ended
                self._work_of(at, stream).chunks.extend(chunks)

    def _work_of(self, at: Partition, stream: Stream) -> Work:
        """Returns the work of a partition, after assigning it to this stream.

        Only with some deliberate mistakes, a partition may still have work of an older stream.
        """
        work = self.work.get(at)
        if work is None:
            work = self.work[at] = Work(stream)
        work.stream = stream
        return work

    def working(self) -> int:
        """Returns the number of records to process in the next flush."""
        return sum(len(chunk.records) for work in self.work.values() for chunk in work.chunks)

    def flow_control(self) -> tuple[list[Partition], list[Partition]]:
        """Returns (partitions to pause, partitions to resume), according to the numbers of buffered records."""
        most = self._options.ahead_max
        sizes = {at: stream.size() for at, stream in self.streams.items()}
        to_pause = [at for at, size in sizes.items() if size >= most and at not in self.paused]
        to_resume = [at for at, size in sizes.items() if 2 * size < most and at in self.paused]
        self.paused = (self.paused | set(to_pause)) - set(to_resume)
        return to_pause, to_resume

    # --- flushes ---

    def outputs(self) -> list[Output]:
        """Returns the outputs of the current work. The outputs of a partition are in the order of its input."""
        produced_outputs: list[Output] = []
        transform = self._options.transform
        for work in self.work.values():
            work.counts = dict(work.stream.counts)
            if transform == "identity":
                produced_outputs += [(id, key, 0) for chunk in work.chunks for _, id, key in chunk.records]
                continue
            for chunk in work.chunks:
                for _, id, key in chunk.records:
                    for n, made_key, value in outputs(transform, id, key, work.counts.get(key, 0)):
                        produced_outputs.append((id, made_key, n))
                        if transform == "aggregate":
                            work.counts[key] = value
        return produced_outputs

    def marks(self) -> dict[Partition, Mark]:
        """Returns partition -> offset and state, to be committed once the work has been produced."""
        marks = {}
        for at, work in self.work.items():
            if self.streams.get(at) is not work.stream and self._mistake != mistakes.WRONG_GENERATION:
                continue
            offset = work.stream.taken
            if self._mistake == mistakes.COMMIT_BUFFERED:
                offset = work.stream.position
            marks[at] = Mark(offset, state_of(work.counts))
        return marks

    def emit_produced(self) -> None:
        for at, work in self.work.items():
            self._emit_range("produced", at, work.chunks)

    def produced(self) -> None:
        """Checks the work for gaps and removes it. Called when its outputs have been produced."""
        for at, work in self.work.items():
            work.stream.counts = work.counts
            self._check(at, work)
        self.work.clear()
        self._flushes += 1

    def _check(self, at: Partition, work: Work) -> None:
        """Carries out the self-check: each chunk must start where the partition's last produced chunk ended."""
        stream = work.stream
        for chunk in work.chunks:
            if chunk.first > stream.done:
                stage = "flush" if chunk.first <= stream.given_up else "stream"
                loss = {"stage": stage, "topic": at[0], "partition": at[1]}
                self.lost = [*self.lost, loss | {"first": stream.done, "last": chunk.first - 1}][-LOST_SHOWN:]
            stream.done = max(stream.done, chunk.next)

    def committed(self, marks: Mapping[Partition, Mark]) -> None:
        """Stores these offsets as the group's committed offsets."""
        for at, mark in marks.items():
            if at in self.streams:
                self.streams[at].stored, self.streams[at].state = mark
            self._emit("committed", at, offset=mark.offset)

    def rewind(self) -> dict[Partition, int]:
        """Abandons the current work.

        Returns partition -> offset to which the consumer must seek, for each assigned partition that had work.
        """
        given_up, self.work = self.work, {}
        self._flushes += 1
        for at, work in given_up.items():
            self._emit_dropped(at, work.chunks)
            if work.chunks:
                work.stream.given_up = work.chunks[-1].next
        if self._mistake == mistakes.NO_REWIND:
            return {}
        seeks: dict[Partition, int] = {}
        for at, work in given_up.items():
            stream = work.stream
            self._emit_dropped(at, stream.ahead)
            stream.ahead, stream.taken, stream.position = [], stream.stored, stream.stored
            stream.counts, stream.done = counts_of(stream.state), stream.stored
            stream.given_up = 0
            if self.streams.get(at) is stream:
                seeks[at] = stream.stored
                self._emit("position", at, offset=stream.stored)
        return seeks

    # --- events ---

    def _emit_range(self, event: str, at: Partition, chunks: list[Chunk]) -> None:
        if not chunks:
            return
        first, last = chunks[0].first, chunks[-1].next - 1
        count = sum(len(chunk.records) for chunk in chunks)
        self._emit(event, at, first=first, last=last, count=count, gaps=last - first + 1 - count)

    def _emit_dropped(self, at: Partition, chunks: list[Chunk]) -> None:
        self._emit_range("dropped", at, chunks)
