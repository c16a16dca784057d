"""The client of one process of the pipeline workload. Its ops decide whether the client is a writer or an instance.

    begin  commit the beginning of every partition for the group, as if the group had existed before the run
    send   write records: [["send", partition, id], ...]; partitions as in harness.pipeline_app.partition_numbers
    sizes  refresh the writer's metadata, and return how many partitions each input topic has
    work   run the instance for a while, and complete with its counts; the next `work` continues
    leave  close the instance cleanly; the next `work` starts a new one
    lag    return how many input records are beyond the group's committed offsets
    read   do the final reading of this slot's share of the partitions: see `reading`

After `info` the client is broken. Then a new process replaces the client's process, and a new incarnation of the
instance replaces the old one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from harness.clients.error_outcomes import describe, outcome
from harness.clients.pipeline.config import PipelineConfig
from harness.clients.pipeline.events import EventLog
from harness.clients.pipeline.files import FilesSink
from harness.clients.pipeline.library import PipelineLibrary, Row, Sent, Writer
from harness.clients.pipeline.reading import Reading, lag, rows_of_record
from harness.model.errors_and_exit_codes import HarnessError
from harness.model.op import FAIL, INFO, OK, Op
from harness.pipeline_app.instance import Instance
from harness.pipeline_app.partition_numbers import place_of
from harness.pipeline_app.ports import Failed, Mark, Sink
from harness.protocol.error_codes import ClientError

BEGIN_S: Final = 5.0
SIZES_S: Final = 3.0


class PipelineClient:
    """The client of one process, which is a writer or an instance of the pipeline. Not thread-safe."""

    def __init__(self, pipeline: PipelineConfig, library: PipelineLibrary) -> None:
        self._pipeline, self._library = pipeline, library
        self._writer: Writer | None = None
        self._instance: Instance | None = None
        self._events: EventLog | None = None
        self._files: FilesSink | None = None
        self._reading: Reading | None = None
        self.broken = False

    def invoke(self, op: Op) -> Op:
        """Returns the completion of `op`."""
        handler = self._handlers().get(op.f)
        if handler is None:
            return op.with_(type=FAIL, error=f"unknown: the pipeline client has no op {op.f!r}")
        if self.broken:
            return op.with_(type=FAIL, error="broken: an earlier op of this client was indeterminate; open a new one")
        done = handler(op)
        self.broken = done.type == INFO
        return done

    def _handlers(self) -> Mapping[str, Callable[[Op], Op]]:
        """Returns name of an op -> function that carries it out."""
        return {
            "begin": self._begin,
            "send": self._send,
            "sizes": self._sizes,
            "work": self._work,
            "leave": self._leave,
            "lag": self._lag,
            "read": self._read,
        }

    # --- records ---

    def _record(self, id: int, key: int) -> tuple[bytes, bytes]:
        """Returns (key, value) of the input record with this id."""
        return str(key).encode(), orjson.dumps({"id": id, "key": key})

    def _rows(self, side: str, row: Row) -> list[Mapping[str, Any]]:
        """Returns the rows that the final reading writes for a record of one `side`, "input" or "output"."""
        return rows_of_record(self._pipeline.folder, row[2])

    # --- writers ---

    def _begin(self, op: Op) -> Op:
        try:
            marks = {at: Mark(0) for at in self._pipeline.inputs_first}
            self._library.commit(self._pipeline, marks, BEGIN_S)
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("commit", error))
        return op.with_(type=OK, value={"committed": True})

    def _sizes(self, op: Op) -> Op:
        try:
            sizes = self._writing().sizes(self._pipeline.input_topics, SIZES_S)
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("admin", error))
        return op.with_(type=OK, value=[sizes[topic] for topic in self._pipeline.input_topics])

    def _writing(self) -> Writer:
        if self._writer is None:
            self._writer = self._library.writer(self._pipeline)
        return self._writer

    def _send(self, op: Op) -> Op:
        pipeline, records = self._pipeline, []
        try:
            writer = self._writing()
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("send", error))
        for _, number, id in op.value:
            key = id % op.extra["keys"]
            topic, partition = place_of(number, pipeline.inputs)
            records.append(((pipeline.topic(topic), partition), *self._record(id, key)))
        sent = writer.send(records, pipeline.settings.patience_s)
        value = [
            [f, number, [delivery.offset, id] if delivery.error is None else id]
            for (f, number, id), delivery in zip(op.value, sent, strict=True)
        ]
        first_error = next((delivery.error for delivery in sent if delivery.error is not None), None)
        if first_error is None:
            return op.with_(type=OK, value=value)
        outcomes = [self._outcome(delivery) for delivery in sent]
        outcome_of_op = FAIL if all(each == FAIL for each in outcomes) else INFO
        extra = {**op.extra, "outcomes": outcomes}
        return op.with_(type=outcome_of_op, value=value, error=describe("report", first_error), extra=extra)

    def _outcome(self, delivery: Sent) -> str:
        return OK if delivery.error is None else outcome("report", delivery.error, self._pipeline.settings.retries_off)

    # --- instances ---

    def _open(self) -> Instance:
        pipeline = self._pipeline
        if self._events is None:
            self._events = EventLog(pipeline.folder, pipeline.settings.process)
        sink: Sink = self._library.sink(pipeline)
        if pipeline.options.mode == "files":
            sink = self._files = FilesSink(pipeline, sink)
        source = self._library.source(pipeline)
        events = self._events
        process = pipeline.settings.process
        return Instance(pipeline.options, pipeline.slot, process, source, sink, events.now, events.write)

    def _work(self, op: Op) -> Op:
        until = time.monotonic() + self._pipeline.work_s
        try:
            if self._instance is None:
                self._instance = self._open()
            before = dict(self._instance.counts)
            while time.monotonic() < until:
                self._instance.step()
        except Failed as failed:
            return op.with_(type=INFO, error=failed.why)
        except HarnessError as error:
            return op.with_(type=FAIL, error=str(error))
        counts = self._instance.counts
        value: dict[str, Any] = {name: counts[name] - before[name] for name in counts}
        if self._instance.errors:
            value["errors"], self._instance.errors = self._instance.errors, []
        check: dict[str, Any] = self._files.report() if self._files is not None else {"lost": []}
        check["lost"] += self._instance.lost()
        if check["lost"] or self._files is not None:
            value["self_check"] = check
        return op.with_(type=OK, value=value)

    def _leave(self, op: Op) -> Op:
        instance, self._instance = self._instance, None
        if instance is not None:
            try:
                instance.close(leave=True)
            except Failed as failed:
                return op.with_(type=INFO, error=failed.why)
        return op.with_(type=OK)

    # --- the end ---

    def _lag(self, op: Op) -> Op:
        try:
            return op.with_(type=OK, value=lag(self._pipeline, self._library))
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("admin", error))

    def _read(self, op: Op) -> Op:
        try:
            if self._reading is None:
                self._reading = Reading(self._pipeline, self._library, self._rows)
            return op.with_(type=OK, value=self._reading.go_on())
        except ClientError as error:
            self._reading = None  # the next op starts over
            return op.with_(type=FAIL, error=describe("poll", error))

    def close(self) -> None:
        """Closes the writer or the instance without finishing pending work.

        Called when a new process takes over the slot.
        """
        self.broken = True
        instance, self._instance = self._instance, None
        try:
            if instance is not None:
                instance.close(leave=False)
            if self._writer is not None:
                self._writer.close()
        finally:
            self._library.close()
            if self._events is not None:
                self._events.close()
                self._events = None
