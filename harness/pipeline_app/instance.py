"""An instance of the pipeline: consumes, buffers, transforms, produces and commits, through a source and a sink.

`step` polls once, handles the rebalances of the poll, and flushes if a flush is due. `close` ends the instance. Methods
raise `Failed` of kind "fatal" if the instance cannot continue; then only `close(leave=False)` may be called.

What a flush does, by mode:

    exactly-once   commits a transaction with the outputs and the offsets (KIP-98, KIP-447)
    at-least-once  produces the outputs; offsets are committed periodically and before a partition is revoked
    at-most-once   produces the outputs; the offsets were already committed when the records were taken
    auto-commit    produces the outputs; the client library commits the offsets of polled records by itself
    files          like exactly-once, but the sink writes the outputs to files, and references to the files to the topic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.model.randomness import Draw
from harness.pipeline_app import mistakes
from harness.pipeline_app.buffers_and_commits import InstanceState
from harness.pipeline_app.ports import Failed, Mark, Options, Partition, Record, Sink, Source

ON_PURPOSE: Final = "aborted on purpose"


class Instance:
    """One incarnation of one instance.

    slot         the instance's slot
    incarnation  number of the process; at most one process of a slot should be running
    clock        returns the nanoseconds since the start of the run
    emit         records an event, as a line of events/instance-<incarnation>.jsonl
    counts       numbers of polled records, flushes, aborts and rebalances
    """

    def __init__(
        self,
        options: Options,
        slot: int,
        incarnation: int,
        source: Source,
        sink: Sink,
        clock: Callable[[], int],
        emit: Callable[[dict[str, Any]], None],
    ) -> None:
        self._options, self._slot, self._incarnation = options, slot, incarnation
        self._source, self._sink, self._clock, self._emit = source, sink, clock, emit
        self._state = InstanceState(options, self._emit_event)
        self._generation: int | None = None
        self._work_since = 0  # when the oldest record of the work was polled
        self._uncommitted: dict[Partition, Mark] = {}  # at-least-once: offsets of produced records, to be committed
        self._committed_at = clock()
        self._flushes, self._seek = 0, dict[Partition, int]()
        self._moved = False  # a rebalance happened during this poll
        self._within_poll = False
        self.counts = {"polled": 0, "flushes": 0, "aborts": 0, "rebalances": 0}
        self.errors: list[str] = []
        self._emit_event("started")

    def lost(self) -> list[dict[str, Any]]:
        """Returns the lost records that the self-check has found since this method was last called.

        Each range of lost records is {"stage": "stream" | "flush", "topic", "partition", "first", "last"}.
        """
        losses, self._state.lost = self._state.lost, []
        return losses

    # --- one step ---

    def step(self) -> None:
        """Polls once, processes the records, and flushes if a flush is due."""
        state, options = self._state, self._options
        to_pause, to_resume = state.flow_control()
        if to_pause:
            self._source.pause(to_pause)
            self._emit_each("paused", to_pause)
        if to_resume:
            self._source.resume(to_resume)
            self._emit_each("resumed", to_resume)
        state.request()
        polled = self._seek_pending(self._polled())
        if self._moved and options.mistake == mistakes.PRODUCE_AFTER:
            self._flush()
        if self._moved and not options.flush_s:
            state.request()  # the rebalance has cancelled the requests, but nothing may wait for the next poll
        before = state.working()
        state.polled(polled)
        self.counts["polled"] += sum(map(len, polled.values()))
        working, now = state.working(), self._clock()
        if working and not before:
            self._work_since = now
        if working > before and options.mode == "at-most-once":
            self._commit_first()
        if working and (working >= options.batch_max or now - self._work_since >= options.flush_s * 1e9):
            self._flush()
        self._commit_when_due(self._clock())

    def _polled(self) -> Mapping[Partition, list[Record]]:
        self._moved, self._within_poll = False, True
        try:
            polled = self._source.poll(self._options.poll_s, self._options.records_max, self)
        finally:
            self._within_poll = False
        if self._moved:
            self._generation = self._source.generation()
        return polled

    def _seek_pending(self, polled: Mapping[Partition, list[Record]]) -> Mapping[Partition, list[Record]]:
        """Seeks back in the partitions whose work was abandoned during the poll.

        Returns the polled records of the other partitions.
        """
        if not self._seek:
            return polled
        seek, self._seek = self._seek, {}
        rewound = {at: offset for at, offset in seek.items() if at in self._state.streams}
        if rewound:
            self._source.seek(rewound)
        return {at: records for at, records in polled.items() if at not in rewound}

    # --- rebalances, called from within a poll ---

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Handles the revocation of partitions: flushes and commits first, unless the partitions are already `lost`."""
        self.counts["rebalances"] += 1
        self._moved = True
        late = self._options.mistake in (mistakes.PRODUCE_AFTER, mistakes.WRONG_GENERATION)
        if not lost and not late:
            self._flush()
            self._commit_when_due(None)
        for at in partitions:
            self._uncommitted.pop(at, None)
        self._emit_event("lost" if lost else "revoked", partitions=[list(at) for at in partitions])
        if paused := [at for at in partitions if at in self._state.paused]:
            self._source.resume(paused)  # a library may keep them paused after the next assignment
        self._state.revoked(partitions, lost)
        for at in partitions:
            self._seek.pop(at, None)

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        self._moved = True
        self._generation = self._source.generation()
        self._emit_event("assigned", partitions=[list(at) for at in marks])
        try:
            return self._state.assigned(marks)
        except ValueError:
            states = {f"{topic}-{number}": mark.state[:80] for (topic, number), mark in marks.items() if mark}
            raise Failed(
                "fatal", f"committed offsets whose metadata this application has not written: {states}"
            ) from None

    # --- flushes ---

    def _flush(self) -> None:
        """Produces the outputs of the current work, and commits as the mode requires."""
        state = self._state
        if not state.work:
            return
        self._flushes += 1
        self.counts["flushes"] += 1
        if self._options.transactional:
            self._transaction()
            return
        outputs = state.outputs()
        marks = state.marks()
        try:
            self._sink.send(outputs, self._generation)
        except Failed as failed:
            self._flush_failed(failed)
            return
        state.emit_produced()
        state.produced()
        if self._options.mode == "at-least-once":
            self._uncommitted.update(marks)

    def _transaction(self) -> None:
        state, sink = self._state, self._sink
        outputs, marks = state.outputs(), state.marks()
        try:
            sink.begin()
            sink.send(outputs, self._generation)
            state.emit_produced()
            draw = Draw.of(self._options.seed, f"pipeline-abort-{self._incarnation}", self._flushes)
            if draw.random() < self._options.abort_p:
                raise Failed("abort", ON_PURPOSE)
            sink.offsets(marks, self._source)
            sink.commit()
        except Failed as failed:
            if failed.kind == "fatal" and self._options.mistake == mistakes.SHARED_ID:
                sink.reopen()  # the mistake: it treats the transaction as committed
                state.produced()
                return
            if failed.kind == "fatal":
                raise
            sink.abort()
            self._flush_failed(failed)
            return
        state.committed(marks)
        state.produced()

    def _flush_failed(self, failed: Failed) -> None:
        """Abandons the current work, and seeks back to its first records.

        With at-most-once and auto-commit, the offsets of the work are already committed, so its records are lost.
        """
        if failed.kind == "fatal":
            raise failed
        self.counts["aborts"] += 1
        if failed.why != ON_PURPOSE:
            self.errors = [*self.errors[-9:], failed.why]
        self._emit_event("aborted", reason=failed.why)
        if self._options.mode in ("at-most-once", "auto-commit"):
            self._state.produced()  # lost, which the mode permits
            return
        self._go_back()

    def _commit_first(self) -> None:
        """At-most-once: commits the offsets of the current work, before the work is processed."""
        marks = self._state.marks()
        try:
            self._source.commit(marks)
        except Failed as failed:
            if failed.kind == "fatal":
                raise
            self._commit_failed(failed)
            return
        self._state.committed(marks)

    def _commit_failed(self, failed: Failed) -> None:
        """Abandons the records whose offsets could not be committed, and seeks back, so that they are read again."""
        self.errors = [*self.errors[-9:], failed.why]
        self._go_back()

    def _go_back(self) -> None:
        """Abandons the current work, and seeks back to its first records.

        During a poll, the seek is delayed until the poll ends.
        """
        seeks = self._state.rewind()
        for at in seeks:
            self._uncommitted.pop(at, None)
        self._seek |= seeks
        if not self._within_poll:
            self._seek_pending({})

    def _commit_when_due(self, now: int | None) -> None:
        """At-least-once: commits the offsets of produced records, if the interval has passed.

        now  time in ns; None: commits even if the interval has not passed
        """
        if not self._uncommitted:
            return
        if now is not None and now - self._committed_at < self._options.commit_s * 1e9:
            return
        marks, self._uncommitted = self._uncommitted, {}
        self._committed_at = self._clock()
        try:
            self._source.commit(marks)
        except Failed as failed:
            if failed.kind == "fatal":
                raise
            # Produced but not committed: retry later, or the partition's next owner processes the records again.
            self._uncommitted = marks
            self.errors = [*self.errors[-9:], failed.why]
            return
        self._state.committed(marks)

    # --- the end ---

    def close(self, leave: bool) -> None:
        """Closes the instance.

        With `leave`, flushes, commits and leaves the group first; otherwise the instance disappears like a crashed
        process.
        """
        try:
            if leave:
                self._flush()
                self._commit_when_due(None)
            self._source.close(leave, self)
        finally:
            self._sink.close()
            self._emit_event("closed")

    # --- events ---

    def _emit_each(self, event: str, partitions: Sequence[Partition]) -> None:
        for at in partitions:
            self._emit_event(event, at)

    def _emit_event(self, event: str, at: Partition | None = None, **fields: Any) -> None:
        event_line: dict[str, Any] = {
            "time_ns": self._clock(),
            "instance": self._slot,
            "incarnation": self._incarnation,
            "generation": self._generation,
            "event": event,
        }
        if at is not None:
            event_line["topic"], event_line["partition"] = at
        self._emit(event_line | fields)
