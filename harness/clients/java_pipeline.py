"""The pipeline over Kafka's own Java client: members of the group, producers, writers.

A KafkaConsumer takes calls of one thread at a time, and from within its rebalance listener only of the one
that polls; so the JVM is one of py4j's single-threaded model: see `Machine`. What reads logs and asks for
committed offsets is librdkafka's, as administration is for every client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson

from harness.clients.api import Admin, ClientError, Delivery, TopicPartition
from harness.clients.confluent_pipeline import ConfluentLogs, ConfluentPipeline
from harness.clients.java import CLOSE_TIMEOUT_S, JavaConsumer, JavaProducer
from harness.clients.java_machine import Machine
from harness.clients.pipeline.config import Made
from harness.clients.pipeline.library import Sent
from harness.clients.pipeline.member import Member
from harness.clients.pipeline.rows import Outgoing, output_rows
from harness.clients.pipeline.transaction import step
from harness.clients.settings import Settings
from harness.model.pipeline import mistakes
from harness.model.pipeline.ports import (
    Failed,
    Kind,
    Mark,
    Output,
    Partition,
    Rebalances,
    Record,
    Sink,
    Source,
)

COMMIT_S: Final = 3.0
LINGER_MS: Final = 5


class _Listener:
    """A ConsumerRebalanceListener that passes on at once what it is told."""

    def __init__(self, member: JavaSource) -> None:
        self._member = member

    def onPartitionsAssigned(self, partitions: Any) -> None:
        self._member.told_assigned(partitions)

    def onPartitionsRevoked(self, partitions: Any) -> None:
        self._member.told_taken(partitions, lost=False)

    def onPartitionsLost(self, partitions: Any) -> None:
        self._member.told_taken(partitions, lost=True)

    class Java:
        implements = ("org.apache.kafka.clients.consumer.ConsumerRebalanceListener",)


class JavaSource(Member):
    """`ports.Source`."""

    def __init__(self, machine: Machine, made: Made) -> None:
        super().__init__(made)
        config = {
            **made.settings.consumer_config,
            "auto.commit.interval.ms": int(made.options.commit_s * 1000),
            **({"group.instance.id": made.static_name} if made.static_members else {}),
        }
        settings = replace(
            made.settings, auto_commit=made.options.mode == "auto-commit", isolation_level="read_committed",
            records_max=made.options.records_max, consumer_config=config,
        )  # fmt: skip
        try:
            self._consumer = JavaConsumer(machine, settings)
            self._consumer.subscribe_with(made.input_topics, _Listener(self))
        except ClientError as error:
            raise Failed("fatal", f"subscribe: {error}") from None

    def told_assigned(self, partitions: Any) -> None:
        self._assigned(_plain(partitions))

    def told_taken(self, partitions: Any, lost: bool) -> None:
        if gone := _plain(partitions):
            self._taken(gone, lost)

    # --- Member ---

    def _take(self, found: dict[Partition, list[Record]], timeout_s: float, records_max: int) -> None:
        try:
            records = self._consumer.take(timeout_s)
        except ClientError as error:
            if error.kind == "retriable":
                return
            raise Failed("fatal", f"poll: {error}") from None
        for record in records:
            value = orjson.loads(record.value or b"")
            found.setdefault((record.topic, record.partition), []).append(
                (record.offset, value["id"], value["key"])
            )

    def _marks(self, partitions: Sequence[Partition]) -> dict[Partition, Mark | None]:
        return self._consumer.marks(partitions)

    def _end(self, at: Partition) -> int:
        return self._consumer.end(at)

    def _start(self, starts: Mapping[Partition, int]) -> None:
        self._consumer.seek(starts, 0.0)

    # --- ports.Source ---

    def seek(self, positions: Mapping[Partition, int]) -> None:
        try:
            self._consumer.seek(positions, 0.0)
        except ClientError as error:
            raise Failed("fatal", f"seek: {error}") from None

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._unless_gone(partial(self._consumer.hold, partitions, True))

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._unless_gone(partial(self._consumer.hold, partitions, False))

    def _unless_gone(self, call: Callable[[], None]) -> None:
        """What is gone meanwhile has nothing to pause."""
        try:
            call()
        except ClientError as error:
            if error.kind == "fatal":
                raise Failed("fatal", str(error)) from None

    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        try:
            self._consumer.commit_marks(marks, COMMIT_S)
        except ClientError as error:
            kind: Kind = "fatal" if error.kind == "fatal" else "abort"
            raise Failed(kind, f"commit of offsets: {error}") from None

    def marked(self, marks: Mapping[Partition, Mark]) -> Any:
        """A Java map of them. Raises ClientError."""
        return self._consumer.marked(marks)

    def group(self) -> Any:
        """What fences this member's commits in transactions (KIP-447). Raises ClientError."""
        return self._consumer.group()

    def generation(self) -> int | None:
        try:
            number = self._consumer.generation()
        except ClientError as error:
            raise Failed("fatal", f"generation: {error}") from None
        return number if number >= 0 else None

    def close(self, leave: bool, on: Rebalances) -> None:
        self._on = on if leave else None
        self._closing = True
        try:
            if leave:
                self._consumer.close_within(CLOSE_TIMEOUT_S)
            else:
                self._consumer.close(leave=False)
        except ClientError as error:
            raise Failed("fatal", f"leaving the group: {error}") from None
        finally:
            self._on = None
        if self._failed is not None:
            raise self._failed


def _plain(partitions: Any) -> list[Partition]:
    return [(str(each.topic()), int(each.partition())) for each in partitions]


class JavaSink:
    """`ports.Sink`. With transactions it is opened at once, so that whoever had the id before is fenced."""

    def __init__(self, machine: Machine, made: Made) -> None:
        self._machine, self._made = machine, made
        self._producer = self._open()

    def _open(self) -> JavaProducer:
        made = self._made
        transactional = made.options.transactional
        settings = replace(
            made.settings, txn=transactional, acks="all", idempotence=True, retries=None,
            transactional_id=made.transactional_id,
            producer_config={**made.settings.producer_config, "acks": "all", "enable.idempotence": "true"},
        )  # fmt: skip
        try:
            producer = _opened(self._machine, settings)
        except ClientError as error:
            raise Failed("fatal", f"producer: {error}") from None
        if transactional:
            step(producer.init, "initTransactions")
        return producer

    def begin(self) -> None:
        step(lambda _: self._producer.begin(), "beginTransaction")

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        self.send_rows(output_rows(self._made, outputs, generation))

    def send_rows(self, rows: Sequence[Outgoing]) -> None:
        """Outside transactions waits until all are acknowledged."""
        if self._made.options.transactional:
            self._post(rows)
            return
        sent = _sent(self._producer, rows, self._made.settings.patience_s)
        wrong = [one.error for one in sent if one.error is not None]
        if wrong:
            gone = any(error.kind == "fatal" or error.code == "_TIMED_OUT" for error in wrong)
            raise Failed("fatal" if gone else "abort", f"send: {wrong[0]}")

    def _post(self, rows: Sequence[Outgoing]) -> None:
        """Within a transaction: its commit waits for them, and fails with any of them."""
        deadline = time.monotonic() + self._made.settings.patience_s
        for topic, partition, key, value in rows:
            if time.monotonic() > deadline:
                raise Failed("abort", "send: it takes longer than an op may")
            try:
                self._producer.post((topic, partition), value, key)
            except ClientError as error:
                raise Failed("fatal" if error.kind == "fatal" else "abort", f"send: {error}") from None

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        assert isinstance(source, JavaSource)
        if not marks:
            return
        try:
            offsets = source.marked(marks)
            if self._made.options.mistake == mistakes.NOT_FENCED:
                group = self._machine.nobody(self._made.settings.group_id)
            else:
                group = source.group()
        except ClientError as error:
            raise Failed("fatal", f"the group: {error}") from None
        step(lambda _: self._producer.offsets_of(offsets, group), "sendOffsetsToTransaction")

    def commit(self) -> None:
        step(self._producer.commit, "commitTransaction")

    def abort(self) -> None:
        step(self._producer.abort, "abortTransaction", "fatal")

    def reopen(self) -> None:
        self.close()
        self._producer = self._open()

    def close(self) -> None:
        self._producer.close()


def _opened(machine: Machine, settings: Settings) -> JavaProducer:
    """Raises ClientError."""
    config = {"linger.ms": LINGER_MS, **settings.producer_config}
    return JavaProducer(machine, replace(settings, producer_config=config))


def _sent(producer: JavaProducer, rows: Sequence[Outgoing], timeout_s: float) -> list[Sent]:
    """Send, and wait for all reports."""
    late = ClientError("_TIMED_OUT", f"not sent in {timeout_s:.1f} s")
    deadline = time.monotonic() + timeout_s
    # Each may wait for metadata.
    begun = [_begun(producer, row) if time.monotonic() < deadline else late for row in rows]
    return [_ended(producer, one, max(0.0, deadline - time.monotonic())) for one in begun]


def _begun(producer: JavaProducer, row: Outgoing) -> Delivery | ClientError:
    topic, partition, key, value = row
    try:
        return producer.send((topic, partition), value, key)
    except ClientError as error:
        return error


def _ended(producer: JavaProducer, begun: Delivery | ClientError, left_s: float) -> Sent:
    if isinstance(begun, ClientError):
        return Sent(None, begun)
    try:
        producer.wait([begun], left_s)
    except ClientError as error:
        return Sent(None, error)
    return Sent(begun.offset, begun.error)


class JavaWriter:
    """`library.Writer`: the plan's own acks, retries and idempotence; never transactional."""

    def __init__(self, machine: Machine, made: Made, admin: Callable[[], Admin]) -> None:
        self._producer = _opened(machine, replace(made.settings, txn=False))
        self._admin = admin

    def send(self, records: Sequence[tuple[TopicPartition, bytes, bytes]], timeout_s: float) -> list[Sent]:
        rows = [(topic, partition, key, value) for (topic, partition), key, value in records]
        return _sent(self._producer, rows, timeout_s)

    def sizes(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        admin = self._admin()
        try:
            found = admin.partitions(topics, timeout_s)
        finally:
            admin.close()
        return {topic: sum(row["topic"] == topic for row in found) for topic in topics}

    def close(self) -> None:
        self._producer.close()


class JavaPipeline:
    """`library.PipelineLibrary`. The JVM starts with what needs it first, and again after it was killed."""

    def __init__(self, java: Mapping[str, str]) -> None:
        self._java = java
        self._machine: Machine | None = None
        self._rest = ConfluentPipeline()

    def _running(self) -> Machine:
        """Raises ClientError."""
        if self._machine is None or self._machine.ended:
            try:
                self._machine = Machine(self._java, one_thread=True)
            except Exception as error:  # of the system, or of py4j, which has no class for all of its own
                raise ClientError("_JVM", f"it does not start: {error}", "fatal") from None
        return self._machine

    def _for_an_instance(self) -> Machine:
        try:
            return self._running()
        except ClientError as error:
            raise Failed("fatal", str(error)) from None

    def source(self, made: Made) -> Source:
        return JavaSource(self._for_an_instance(), made)

    def sink(self, made: Made) -> Sink:
        return JavaSink(self._for_an_instance(), made)

    def writer(self, made: Made) -> JavaWriter:
        return JavaWriter(self._running(), made, partial(self.admin, made))

    def logs(self, made: Made) -> ConfluentLogs:
        return self._rest.logs(_without_properties(made))

    def admin(self, made: Made) -> Admin:
        return self._rest.admin(_without_properties(made))

    def committed(
        self, made: Made, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Mark | None]:
        return self._rest.committed(_without_properties(made), partitions, timeout_s)

    def commit(self, made: Made, marks: Mapping[TopicPartition, Mark], timeout_s: float) -> None:
        self._rest.commit(_without_properties(made), marks, timeout_s)

    def close(self) -> None:
        if self._machine is not None:
            self._machine.kill()


def _without_properties(made: Made) -> Made:
    """The properties that were given are the Java client's."""
    return replace(made, settings=replace(made.settings, producer_config={}, consumer_config={}))


def open_client(config: Mapping[str, Any]) -> Any:
    """A client of one process: see `pipeline.client`."""
    from harness.clients.pipeline.client import PipelineClient
    from harness.clients.pipeline.config import made

    return PipelineClient(made(config), JavaPipeline(config["java"]))
