"""An instance of the pipeline: consume, buffer, transform, produce, commit, above the ports.

`step` is one turn: a poll, with the rebalances that it brings, and a flush when one is due. `close` leaves.
Raises `Failed` of kind "fatal" when the instance cannot go on; then only `close(leave=False)` makes sense.

What one flush does, by mode:

    exactly-once   a transaction: the outputs and the offsets (KIP-98, KIP-447)
    at-least-once  the outputs, and, when due and before a partition is given up, the offsets
    at-most-once   the outputs; their offsets were committed as the records were taken
    auto-commit    the outputs; the library commits what it has handed over, at its own times
    files          as exactly-once, where an output is a file's reference: see the sink
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.model.randomness import Draw
from harness.pipeline_app import mistakes
from harness.pipeline_app.buffers_and_commits import Heart
from harness.pipeline_app.ports import Failed, Mark, Options, Partition, Record, Sink, Source

ON_PURPOSE: Final = "aborted on purpose"


class Instance:
    """One incarnation of one instance.

    slot, incarnation  who it is: of all processes in a slot, one at a time is meant to live
    clock              nanoseconds since the run began
    emit               takes an event: a line of events/instance-<incarnation>.jsonl
    counts             how many records were read, worked off and dropped, flushes, aborts, rebalances
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
        self._heart = Heart(options, self._tell)
        self._generation: int | None = None
        self._work_since = 0  # when the oldest work was taken
        self._uncommitted: dict[Partition, Mark] = {}  # at least once: produced, and to be committed
        self._committed_at = clock()
        self._flushes, self._seek = 0, dict[Partition, int]()
        self._moved = False  # a rebalance came with this poll
        self._within_poll = False
        self.counts = {"polled": 0, "flushes": 0, "aborts": 0, "rebalances": 0}
        self.errors: list[str] = []
        self._tell("started")

    def lost(self) -> list[dict[str, Any]]:
        """What the self-check has found since it was last asked: {"stage": "stream" | "flush", "topic",
        "partition", "first", "last"}."""
        losses, self._heart.lost = self._heart.lost, []
        return losses

    # --- one turn ---

    def step(self) -> None:
        """Poll once, take what came, and flush if it is due."""
        heart, options = self._heart, self._options
        stop, go = heart.turn()
        if stop:
            self._source.pause(stop)
            self._tell_of("paused", stop)
        if go:
            self._source.resume(go)
            self._tell_of("resumed", go)
        heart.ask()
        polled = self._gone_back(self._polled())
        if self._moved and options.mistake == mistakes.PRODUCE_AFTER:
            self._flush()
        before = heart.working()
        heart.polled(polled)
        self.counts["polled"] += sum(map(len, polled.values()))
        working, now = heart.working(), self._clock()
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

    def _gone_back(self, polled: Mapping[Partition, list[Record]]) -> Mapping[Partition, list[Record]]:
        """Seek where a flush within the poll gave up: what was polled of those partitions is void."""
        if not self._seek:
            return polled
        seek, self._seek = self._seek, {}
        rewound = {at: offset for at, offset in seek.items() if at in self._heart.streams}
        if rewound:
            self._source.seek(rewound)
        return {at: records for at, records in polled.items() if at not in rewound}

    # --- rebalances, called from within a poll ---

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Everything at hand is worked off before partitions go, if there is still time."""
        self.counts["rebalances"] += 1
        self._moved = True
        late = self._options.mistake in (mistakes.PRODUCE_AFTER, mistakes.WRONG_GENERATION)
        if not lost and not late:
            self._flush()
            self._commit_when_due(None)
        for at in partitions:
            self._uncommitted.pop(at, None)
        self._tell("lost" if lost else "revoked", partitions=[list(at) for at in partitions])
        if paused := [at for at in partitions if at in self._heart.paused]:
            self._source.resume(paused)  # a library may remember it beyond the assignment
        self._heart.revoked(partitions, lost)
        for at in partitions:
            self._seek.pop(at, None)

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        self._moved = True
        self._generation = self._source.generation()
        self._tell("assigned", partitions=[list(at) for at in marks])
        return self._heart.assigned(marks)

    # --- flushes ---

    def _flush(self) -> None:
        """Produce the work at hand, and what goes with it in this mode."""
        heart = self._heart
        if not heart.work:
            return
        self._flushes += 1
        self.counts["flushes"] += 1
        if self._options.transactional:
            self._transaction()
            return
        outputs = heart.outputs()
        marks = heart.marks()
        try:
            self._sink.send(outputs, self._generation)
        except Failed as failed:
            self._given_up(failed)
            return
        heart.tell_produced()
        heart.produced()
        if self._options.mode == "at-least-once":
            self._uncommitted.update(marks)

    def _transaction(self) -> None:
        heart, sink = self._heart, self._sink
        outputs, marks = heart.outputs(), heart.marks()
        try:
            sink.begin()
            sink.send(outputs, self._generation)
            heart.tell_produced()
            draw = Draw.of(self._options.seed, f"pipeline-abort-{self._incarnation}", self._flushes)
            if draw.random() < self._options.abort_p:
                raise Failed("abort", ON_PURPOSE)
            sink.offsets(marks, self._source)
            sink.commit()
        except Failed as failed:
            if failed.kind == "fatal" and self._options.mistake == mistakes.SHARED_ID:
                sink.reopen()  # and takes the transaction for done
                heart.produced()
                return
            if failed.kind == "fatal":
                raise
            sink.abort()
            self._given_up(failed)
            return
        heart.committed(marks)
        heart.produced()

    def _given_up(self, failed: Failed) -> None:
        """Go back to what is committed; at most once and with auto-commit that is behind the work."""
        if failed.kind == "fatal":
            raise failed
        self.counts["aborts"] += 1
        if failed.why != ON_PURPOSE:
            self.errors = [*self.errors[-9:], failed.why]
        self._tell("aborted", reason=failed.why)
        if self._options.mode in ("at-most-once", "auto-commit"):
            self._heart.produced()  # lost, by the promise of the mode
            return
        self._go_back()

    def _commit_first(self) -> None:
        """At most once: commit what was taken before it is worked on."""
        marks = self._heart.marks()
        try:
            self._source.commit(marks)
        except Failed as failed:
            if failed.kind == "fatal":
                raise
            self._give_back(failed)
            return
        self._heart.committed(marks)

    def _give_back(self, failed: Failed) -> None:
        """What is not committed is not worked on: it is read again."""
        self.errors = [*self.errors[-9:], failed.why]
        self._go_back()

    def _go_back(self) -> None:
        """Give up the work at hand; a poll that is under way seeks at its end."""
        back = self._heart.back()
        for at in back:
            self._uncommitted.pop(at, None)
        self._seek |= back
        if not self._within_poll:
            self._gone_back({})

    def _commit_when_due(self, now: int | None) -> None:
        """At least once: commit what has been produced, when it is time; at any time if `now` is None."""
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
            # Produced and not committed: it is tried again, or whoever gets the partition next does it again.
            self._uncommitted = marks
            self.errors = [*self.errors[-9:], failed.why]
            return
        self._heart.committed(marks)

    # --- the end ---

    def close(self, leave: bool) -> None:
        """With `leave`, work off what is at hand, commit, and tell the group; else vanish."""
        try:
            if leave:
                self._flush()
                self._commit_when_due(None)
            self._source.close(leave, self)
        finally:
            self._sink.close()
            self._tell("closed")

    # --- telling ---

    def _tell_of(self, event: str, partitions: Sequence[Partition]) -> None:
        for at in partitions:
            self._tell(event, at)

    def _tell(self, event: str, at: Partition | None = None, **fields: Any) -> None:
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
