"""Adapter for confluent-kafka (librdkafka): the default library.

Behaviour of librdkafka that matters here, from its source (2.16) and observed on brokers:
- `consume(n, timeout)` waits for all n records; with timeout 0 it returns only the records that are available. So a
  poll waits for the first event with `poll`, then takes the rest with `consume`.
- With `enable.partition.eof` the end of a partition is an event. The event's offset is the position at the end: the
  last stable offset under read_committed, past any transaction markers. `position()` stops after the last record.
- A logical offset is looked up at the partition's leader. If the leader is not known yet, the lookup is retried
  only after 500 ms. So metadata is requested before an assignment.
- A seek or a new partition waits for the fetch in progress, for up to `fetch.wait.max.ms`.
- A consumer that is dropped without `close()` does not leave its group and commits nothing; a dropped producer
  leaves its transaction open. Dropping a client only stops its threads, which may take a while.
- `commit(asynchronous=False)`, `seek` and `close` have no timeout, and transactional calls do not always keep
  their timeout: `send_offsets_to_transaction` blocks forever if the group's coordinator is lost during the call
  (confluentinc/librdkafka#5456; observed with a killed broker). See `bounded`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.call_timeout import bounded
from harness.clients.client_protocols import Batch, Consumer, Delivery, Rebalanced, Record
from harness.clients.confluent.before_list_offsets import LISTS_OFFSETS, OldAdmin
from harness.clients.confluent.settings_and_errors import common, consumer_config, converted, made_with, producer_config
from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError, TopicPartition

_EOF: Final = ck.KafkaError._PARTITION_EOF
_GROUPS: Final = frozenset({"group.protocol"})
PAYLOAD: Final = "payload"  # header of a tombstone
CLOSE_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 0.2  # extra time for a call to return by itself after its timeout
METADATA_TIMEOUT_S: Final = 1.0
COMMITTED_TIMEOUT_S: Final = 1.0


def destroy_beside(holder: list[Any]) -> None:
    """Destroys a client in a background thread, because its destruction may take seconds.

    holder  list with the last reference to the client; it is cleared
    """
    threading.Thread(target=holder.clear, name="drop", daemon=True).start()


class ConfluentProducer:
    """`client_protocols.Transactions`, implemented with `confluent_kafka.Producer`."""

    def __init__(self, settings: Settings) -> None:
        self._producer: Any = made_with(ck.Producer, producer_config(settings), "producer")

    def send(self, partition: TopicPartition, payload: bytes) -> Delivery:
        return self._send(partition, payload)

    def send_keyed(self, partition: TopicPartition, key: bytes, payload: bytes, tombstone: bool) -> Delivery:
        if tombstone:
            return self._send(partition, None, key=key, headers=[(PAYLOAD, payload)])
        return self._send(partition, payload, key=key)

    def _send(self, partition: TopicPartition, value: bytes | None, **more: Any) -> Delivery:
        delivery = Delivery()

        def report(error: Any, message: Any) -> None:
            if error is not None:
                delivery.error = converted(error)
            else:
                # There is none with acks=0, and if a duplicate was acknowledged.
                offset = message.offset()
                if offset is not None and offset >= 0:
                    delivery.offset = offset
            delivery.done = True

        try:
            self._producer.produce(partition[0], value, partition=partition[1], on_delivery=report, **more)
        except (ck.KafkaException, BufferError) as error:
            raise converted(error) from None
        return delivery

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for delivery in deliveries:
            while not delivery.done:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise ClientError("_TIMED_OUT", f"no delivery report in {timeout_s:.1f} s")
                try:
                    self._producer.poll(left_s)
                except ck.KafkaException as error:  # fatal errors, such as fencing, are raised here
                    raise converted(error) from None

    def _within(self, name: str, timeout_s: float, *args: Any) -> None:
        """Calls the transactional method `name` of the library's producer, and enforces the timeout."""
        left_s = max(0.0, timeout_s)
        call = getattr(self._producer, name)
        try:
            bounded(lambda: call(*args, left_s), left_s + GRACE_S, name)
        except ck.KafkaException as error:
            raise converted(error) from None

    def init(self, timeout_s: float) -> None:
        self._within("init_transactions", timeout_s)

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except ck.KafkaException as error:
            raise converted(error) from None

    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float) -> None:
        assert isinstance(consumer, ConfluentConsumer)
        self._within("send_offsets_to_transaction", timeout_s, _list(positions), consumer.group())

    def commit(self, timeout_s: float) -> None:
        self._within("commit_transaction", timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._within("abort_transaction", timeout_s)

    def close(self) -> None:
        # Not Producer.close(), which flushes without a timeout.
        holder, self._producer = [self._producer], None
        destroy_beside(holder)


def _payload(message: Any) -> bytes | None:
    """Returns the payload of a consumed record: its value or, for a tombstone, the header in which it was sent."""
    value: bytes | None = message.value()
    return value if value is not None else dict(message.headers() or ()).get(PAYLOAD)


def _list(positions: Mapping[TopicPartition, int]) -> list[Any]:
    return [ck.TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]


class ConfluentConsumer:
    """`client_protocols.Consumer`, implemented with `confluent_kafka.Consumer`."""

    def __init__(self, settings: Settings) -> None:
        self._consumer: Any = made_with(ck.Consumer, consumer_config(settings), "consumer")
        self._topics_with_metadata: set[str] = set()

    def _fetch_metadata(self, topics: set[str]) -> None:
        """Makes the library fetch the metadata of new topics now.

        If this fails, the library fetches the metadata later by itself.
        """
        for topic in sorted(topics - self._topics_with_metadata):
            try:
                self._consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S)
            except ck.KafkaException:
                return
            self._topics_with_metadata.add(topic)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._fetch_metadata({topic for topic, _ in positions})
        try:
            self._consumer.assign(_list(positions))
        except ck.KafkaException as error:
            raise converted(error) from None

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None:
        def on(event: str) -> Callable[[Any, Sequence[Any]], None]:
            def happened(_: Any, partitions: Sequence[Any]) -> None:
                committed = self._committed(partitions) if event == "assigned" else {}
                rebalanced(event, [(p.topic, p.partition) for p in partitions], committed)

            return happened

        try:
            self._consumer.subscribe(
                list(topics), on_assign=on("assigned"), on_revoke=on("revoked"), on_lost=on("lost")
            )
        except ck.KafkaException as error:
            raise converted(error) from None

    def _committed(self, partitions: Sequence[Any]) -> dict[TopicPartition, int | None]:
        """Returns partition -> the group's committed offset (None: nothing committed).

        Under read_committed, the coordinator responds only after pending transactions have ended. Returns {} if it does
        not respond within a timeout.
        """
        try:
            answer = self._consumer.committed(list(partitions), timeout=COMMITTED_TIMEOUT_S)
        except ck.KafkaException:
            return {}
        return {(p.topic, p.partition): p.offset if p.offset >= 0 else None for p in answer if p.error is None}

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        records: list[Record] = []
        ends: dict[TopicPartition, int] = {}
        errors: list[ClientError] = []

        def take(messages: Sequence[Any]) -> None:
            for message in messages:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                error = message.error()
                if error is None:
                    records.append(Record(topic, partition, offset, _payload(message)))
                elif error.code() == _EOF:
                    ends[topic, partition] = offset
                else:
                    errors.append(converted(error))

        deadline = time.monotonic() + timeout_s
        try:
            take(self._consumer.consume(records_max, 0))
            while not records and (left_s := deadline - time.monotonic()) > 0:
                first = self._consumer.poll(left_s)
                if first is not None:
                    take([first])
                    take(self._consumer.consume(records_max - 1, 0))
        except (ck.KafkaException, RuntimeError) as raised:
            error = converted(raised)
            if not (records or ends or errors):
                raise error from None
            # The library does not return these records again, so the reader takes them and then raises the error.
            errors.append(ClientError(error.code, error.text, "fatal"))
        return Batch(records, ends, errors)

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        def seek_all() -> None:
            for partition in _list(positions):
                self._consumer.seek(partition)

        try:
            bounded(seek_all, timeout_s, "seek")
        except ck.KafkaException as error:
            raise converted(error) from None

    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        offsets = _list(positions)
        try:
            answer = bounded(
                lambda: self._consumer.commit(offsets=offsets, asynchronous=False),
                timeout_s,
                "commit of offsets",
            )
        except ck.KafkaException as error:
            raise converted(error) from None
        for partition in answer or ():
            if partition.error is not None:
                raise converted(partition.error)

    def group(self) -> Any:
        """Returns the consumer's group metadata, to pass to `send_offsets_to_transaction`.

        With it the broker rejects the commit if this consumer is no longer a current member of its group (KIP-447).
        """
        return self._consumer.consumer_group_metadata()

    def close(self, leave: bool) -> None:
        holder, self._consumer = [self._consumer], None
        if leave:
            bounded(holder[0].close, CLOSE_TIMEOUT_S, "leaving the group")
        destroy_beside(holder)


class Confluent:
    """`client_protocols.Library` for confluent-kafka."""

    def producer(self, settings: Settings) -> ConfluentProducer:
        return ConfluentProducer(settings)

    def consumer(self, settings: Settings) -> ConfluentConsumer:
        return ConfluentConsumer(settings)

    def admin(self, settings: Settings) -> Any:
        if ck.libversion()[1] < LISTS_OFFSETS:
            return OldAdmin(common(settings))
        from harness.clients.confluent.admin import ConfluentAdmin

        return ConfluentAdmin(common(settings))


def problem(config: Mapping[str, Any]) -> str:
    """Returns why the library rejects the settings, or "" if it accepts them: see `table.Library`."""
    library, settings = Confluent(), parse_settings(config)
    try:
        library.producer(settings).close()
        library.consumer(settings).close(leave=False)
    except BadInput as error:
        return str(error)
    return ""


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `queue.QueueClient`."""
    from harness.clients.queue import QueueClient

    return QueueClient(parse_settings(config), Confluent())


def open_admin(config: Mapping[str, Any]) -> Any:
    """Opens the admin role: an `admin.AdminRole`."""
    from harness.clients.admin import AdminRole

    settings, library = parse_settings(config), Confluent()
    if "confluent" not in config.get("libraries", ("confluent",)):
        # The properties are for another library, except that members must use the group's protocol (KIP-848).
        ours = {name: settings.consumer_config[name] for name in _GROUPS & settings.consumer_config.keys()}
        settings = replace(settings, producer_config={}, consumer_config=ours)
    return AdminRole(library.admin(settings), settings, library, config)
