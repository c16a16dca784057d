"""The pipeline's source for client programs: a consumer that is a member of the group.

The protocol cannot pause a partition, and does not transfer the metadata of committed offsets. Therefore:
- Records of a paused partition are discarded. When it is resumed, the consumer seeks back to the first of them.
- The group's committed offsets are read with librdkafka, which waits for pending transactions (KIP-447). The program's
  library also looks up the committed offsets, and starts there. The program is told to seek only if the instance wants
  to start at another offset. So the checks notice if the library starts at a wrong offset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import orjson

from harness.clients.client_protocols import Record as Consumed
from harness.clients.confluent.pipeline import BesideConfluent
from harness.clients.exec.adapter import Exec
from harness.clients.exec.consumer import ExecConsumer
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.group_member import Member
from harness.pipeline_app.ports import Failed, Kind, Mark, Partition, Record
from harness.protocol.error_codes import ClientError

COMMIT_S: Final = 3.0
SEEK_S: Final = 6.0
TRY_S: Final = 2.0
PAUSE_S: Final = 0.05  # after a poll or a seek that failed


class ExecSource(Member):
    """`pipeline_app.ports.Source` for a client program."""

    def __init__(self, program: Exec, pipeline: PipelineConfig, library: BesideConfluent) -> None:
        super().__init__(pipeline)
        self._pipeline, self._library = pipeline, library
        self._committed_offsets: dict[Partition, int] = {}
        self._starts: dict[Partition, int] = {}  # where to start other than at the committed offset
        self._paused: set[Partition] = set()
        self._discarded: dict[Partition, int] = {}  # the first offset discarded while paused
        settings = replace(
            pipeline.settings, auto_commit=pipeline.options.mode == "auto-commit", isolation_level="read_committed"
        )
        try:
            self._consumer: ExecConsumer = program.consumer(settings)
            self._consumer.subscribe(pipeline.input_topics, self._rebalanced)
        except ClientError as error:
            raise Failed("fatal", f"subscribe: {error}") from None

    def _rebalanced(self, event: str, partitions: Sequence[Partition], committed: object) -> None:
        for at in partitions:
            self._starts.pop(at, None)
            self._discarded.pop(at, None)
            self._paused.discard(at)
        if event == "assigned":
            self._assigned(list(partitions))
        else:
            self._taken(list(partitions), event == "lost")

    # --- Member ---

    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        marks = self._library.committed(self._pipeline, partitions, TRY_S)
        self._committed_offsets = {at: mark.offset for at, mark in marks.items() if mark is not None}
        # Some libraries write metadata of their own, such as the member's id.
        return {at: None if mark is None else Mark(mark.offset) for at, mark in marks.items()}

    def _end(self, at: Partition) -> int:
        admin = self._library.admin(self._pipeline)
        try:
            return admin.offsets([at], "read_uncommitted", TRY_S)[at][1]
        finally:
            admin.close()

    def _start(self, starts: Mapping[Partition, int]) -> None:
        beginning = None if self._latest else 0
        for at, offset in starts.items():
            if offset != self._committed_offsets.get(at, beginning):
                self._starts[at] = offset

    def _take(self, found: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        try:
            batch = self._consumer.poll(timeout_s, records_max)
        except ClientError as error:
            if error.kind == "fatal":
                raise Failed("fatal", f"poll: {error}") from None
            time.sleep(PAUSE_S)
            return
        if fatal := [error for error in batch.errors if error.kind == "fatal"]:
            raise Failed("fatal", f"poll: {fatal[0]}")
        starts, self._starts = self._starts, {}
        if starts:
            self.seek(starts)
        for record in batch.records:
            at = (record.topic, record.partition)
            if at in starts:
                continue  # polled before the seek
            if at in self._paused:
                self._discarded.setdefault(at, record.offset)
            else:
                found.setdefault(at, []).append(_parsed(record))

    def _close(self, leave: bool) -> None:
        if leave:
            self._consumer.leave(self._pipeline.settings.patience_s)
        else:
            self._consumer.close(leave=False)

    # --- ports.Source ---

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Seeks, and tries again if the library refuses: right after an assignment, librdkafka cannot seek yet."""
        for at in positions:
            self._discarded.pop(at, None)
        deadline = time.monotonic() + SEEK_S
        while True:
            try:
                self._consumer.seek(positions, SEEK_S)
                return
            except ClientError as error:
                if error.kind == "fatal" or time.monotonic() > deadline:
                    raise Failed("fatal", f"seek: {error}") from None
            time.sleep(PAUSE_S)

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._paused.difference_update(partitions)
        back = {at: self._discarded[at] for at in partitions if at in self._discarded}
        if back:
            self.seek(back)

    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        try:
            self._consumer.commit({at: mark.offset for at, mark in marks.items()}, COMMIT_S)
        except ClientError as error:
            kind: Kind = "fatal" if error.kind == "fatal" else "abort"
            raise Failed(kind, f"commit of offsets: {error}") from None

    def consumer(self) -> ExecConsumer:
        """Returns the consumer, whose offsets the sink adds to its transactions."""
        return self._consumer

    def generation(self) -> int | None:
        """Returns None, because client programs do not report the generation."""
        return None


def _parsed(record: Consumed) -> Record:
    """Returns the (offset, id, key) of a record. Raises Failed if its value was not written by a writer of the run."""
    try:
        content = orjson.loads(record.value or b"")
        return record.offset, int(content["id"]), int(content["key"])
    except (ValueError, KeyError, TypeError):
        where = f"{record.topic}-{record.partition} offset {record.offset}"
        raise Failed("fatal", f"poll: the value at {where} is not that of a writer") from None
