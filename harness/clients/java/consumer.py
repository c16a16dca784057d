"""A consumer of Kafka's Java client: see `harness.clients.java.adapter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from harness.clients.call_timeout import bounded
from harness.clients.client_protocols import BEGINNING, END, Batch, Rebalanced, Record
from harness.clients.java import settings_and_errors
from harness.clients.java.jvm import Machine
from harness.clients.java.records import parsed
from harness.clients.settings import Settings
from harness.pipeline_app.ports import Mark
from harness.protocol.error_codes import ClientError, TopicPartition

CLOSE_TIMEOUT_S: Final = 5.0
POSITION_TIMEOUT_S: Final = 0.5
GRACE_S: Final = 0.5


class _Listener:
    """A ConsumerRebalanceListener that records the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[TopicPartition]]] = []

    def _note(self, event: str, partitions: Any) -> None:
        named = [(str(each.topic()), int(each.partition())) for each in partitions]
        if named:
            self.events.append((event, named))

    def onPartitionsAssigned(self, partitions: Any) -> None:
        self._note("assigned", partitions)

    def onPartitionsRevoked(self, partitions: Any) -> None:
        self._note("revoked", partitions)

    def onPartitionsLost(self, partitions: Any) -> None:
        self._note("lost", partitions)

    class Java:
        implements = ("org.apache.kafka.clients.consumer.ConsumerRebalanceListener",)


class JavaConsumer:
    """`client_protocols.Consumer`, implemented with KafkaConsumer."""

    def __init__(self, machine: Machine, settings: Settings) -> None:
        self._machine, self._listener, self._rebalanced = machine, _Listener(), _nothing
        self._assigned: list[TopicPartition] = []
        self._subscribed = False
        self._group_protocol = str(settings.consumer_config.get("group.protocol", "classic")).lower()
        try:
            self._consumer = machine.KafkaConsumer(machine.properties(settings_and_errors.consumer(settings)))
        except Exception as raised:
            raise machine.converted(raised) from None

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ClientError:
            raise
        except Exception as raised:
            raise self._machine.converted(raised) from None

    def _partition(self, partition: TopicPartition) -> Any:
        return self._machine.TopicPartition(partition[0], partition[1])

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        def assign() -> None:
            self._consumer.assign([self._partition(each) for each in positions])
            for each, offset in positions.items():
                self._seek(each, offset)

        self._call(assign)
        self._assigned = list(positions)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        if offset >= 0:
            self._consumer.seek(self._partition(partition), offset)
        elif offset == BEGINNING:
            self._consumer.seekToBeginning([self._partition(partition)])
        elif offset == END:
            self._consumer.seekToEnd([self._partition(partition)])

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None:
        self._rebalanced = rebalanced
        self.subscribe_with(topics, self._listener)

    def subscribe_with(self, topics: Sequence[str], listener: Any) -> None:
        """Subscribes with the given ConsumerRebalanceListener."""
        self._subscribed = True
        self._machine.listen()
        wanted = self._pattern(topics[0]) if topics and topics[0].startswith("^") else list(topics)
        self._call(lambda: self._consumer.subscribe(wanted, listener))

    def _pattern(self, expression: str) -> Any:
        """Returns a regular expression that the brokers evaluate, or the client if the group protocol is classic."""
        if self._group_protocol == "consumer":
            return self._machine.SubscriptionPattern(expression)
        return self._machine.Pattern.compile(expression)

    def take(self, timeout_s: float) -> list[Record]:
        """Polls once, and returns the records.

        Raises ClientError. The error is fatal if records were polled but could not be read from the JVM, because these
        records are lost.
        """
        polled = self._call(lambda: self._consumer.poll(self._machine.millis(timeout_s)))
        try:
            records: list[Record] = self._call(lambda: _records(polled))
        except ClientError as error:
            raise ClientError(error.code, error.text, "fatal") from None
        return records

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        records = self.take(timeout_s)
        try:
            self._report_rebalances()
        except ClientError as error:
            # The polled records are lost with the error, so this consumer must not continue behind them.
            raise ClientError(error.code, error.text, "fatal") from None
        return Batch(records, {} if records else self._positions())

    def _report_rebalances(self) -> None:
        """Reports the rebalances of the last poll, and the group's committed offsets of assigned partitions."""
        events, self._listener.events = self._listener.events, []
        for event, partitions in events:
            assigned = set(self._assigned)
            assigned = assigned | set(partitions) if event == "assigned" else assigned - set(partitions)
            self._assigned = sorted(assigned)
            self._rebalanced(event, partitions, self._committed(partitions) if event == "assigned" else {})

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Returns partition -> the group's committed offset (None: nothing committed).

        Returns {} if the request fails with a retriable error. Raises ClientError for any other error.
        """
        try:
            marks = self.marks(partitions)
        except ClientError as error:
            if error.kind == "retriable":
                return {}
            raise
        return {each: None if mark is None else mark.offset for each, mark in marks.items()}

    def _positions(self) -> dict[TopicPartition, int]:
        """Returns partition -> position, for the assigned partitions whose position is known.

        Raises ClientError for errors that are not temporary, such as the end of the JVM.
        """
        positions = {}
        for each in self._assigned:
            try:
                positions[each] = self._call(partial(self._position, each))
            except ClientError as error:
                # The position is not known yet; or the partition was lost since, which the next poll reports.
                if error.kind != "retriable" and error.code != "_IllegalStateException":
                    raise
        return positions

    def _position(self, partition: TopicPartition) -> int:
        limit = self._machine.millis(POSITION_TIMEOUT_S)
        return int(self._consumer.position(self._partition(partition), limit))

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        def seek() -> None:
            for each, offset in positions.items():
                self._seek(each, offset)

        self._call(seek)

    def offsets(self, positions: Mapping[TopicPartition, int]) -> Any:
        """Converts partition -> offset to a Java map of TopicPartition -> OffsetAndMetadata."""
        return self.marked(_marks_of(positions))

    def marked(self, marks: Mapping[TopicPartition, Mark]) -> Any:
        """Converts partition -> offset with metadata to a Java map of TopicPartition -> OffsetAndMetadata."""

        def marked() -> Any:
            offsets = self._machine.HashMap()
            for each, mark in marks.items():
                offsets.put(self._partition(each), self._machine.OffsetAndMetadata(mark.offset, mark.state))
            return offsets

        return self._call(marked)

    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self.commit_marks(_marks_of(positions), timeout_s)

    def commit_marks(self, marks: Mapping[TopicPartition, Mark], timeout_s: float) -> None:
        self._call(lambda: self._consumer.commitSync(self.marked(marks), self._machine.millis(timeout_s)))

    def marks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Mark | None]:
        """Returns partition -> the group's committed offset with its metadata (None: nothing committed).

        Raises ClientError.
        """
        wanted = {self._partition(each) for each in partitions}
        committed = self._call(lambda: self._consumer.committed(wanted))
        return {each: self._call(partial(_mark, committed, self._partition(each))) for each in partitions}

    def end(self, partition: TopicPartition) -> int:
        """Returns the current end offset of a partition. Raises ClientError."""
        wanted = self._partition(partition)
        return int(self._call(lambda: self._consumer.endOffsets([wanted]).get(wanted)))

    def hold(self, partitions: Sequence[TopicPartition], paused: bool) -> None:
        """Pauses partitions, or resumes them if `paused` is false."""
        wanted = [self._partition(each) for each in partitions]
        self._call(lambda: (self._consumer.pause if paused else self._consumer.resume)(wanted))

    def group(self) -> Any:
        """Returns the consumer's group metadata, a Java object, to pass to sendOffsetsToTransaction.

        With it the broker rejects the commit if this consumer is no longer a current member of its group (KIP-447;
        since version 2.5).
        """
        return self._call(self._consumer.groupMetadata)

    def generation(self) -> int:
        """Returns the group's generation (negative: the consumer is not a member). Raises ClientError."""
        return int(self._call(lambda: self._consumer.groupMetadata().generationId()))

    def close(self, leave: bool) -> None:
        if self._subscribed and not leave:
            self._machine.kill()
            return
        bounded(
            lambda: self.close_within(CLOSE_TIMEOUT_S if leave else 0),
            CLOSE_TIMEOUT_S + GRACE_S,
            "leaving the group",
        )

    def close_within(self, timeout_s: float) -> None:
        """Leaves the group and closes the consumer, on the calling thread. Raises ClientError."""
        self._call(lambda: self._consumer.close(self._machine.millis(timeout_s)))


def _records(polled: Any) -> list[Record]:
    """Returns the records of a Java ConsumerRecords object. Raises ClientError, and py4j's exceptions."""
    records: list[Record] = []
    for text, _ in lists_of(polled):
        try:
            records += parsed(text)
        except ValueError as error:
            raise ClientError("_BAD_MSG", str(error), "fatal") from None
    return records


def lists_of(polled: Any) -> list[tuple[str, Any]]:
    """Returns (text, Java list) of the records of each partition of a Java ConsumerRecords object.

    Raises py4j's exceptions.
    """
    lists = [polled.records(partition) for partition in polled.partitions()]
    return [(str(records.toString()), records) for records in lists]


def _nothing(*event: Any) -> None:
    """Ignores rebalance events, until `subscribe` sets another callback."""


def _marks_of(positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Mark]:
    return {each: Mark(offset) for each, offset in positions.items()}


def _mark(committed: Any, partition: Any) -> Mark | None:
    mark = committed.get(partition)
    return None if mark is None else Mark(int(mark.offset()), str(mark.metadata()))
