"""Adapter for confluent-kafka (librdkafka): the default library.

How librdkafka behaves where it matters here, read in its source (2.16) and seen on brokers:
- `consume(n, timeout)` waits for all n; with timeout 0 it takes what is there. So a poll waits for the first
  event with `poll`, then takes the rest.
- With `enable.partition.eof` the end of a partition is an event whose offset is the position there: the last
  stable offset under read_committed, transaction markers included. `position()` stops at the last record.
- A logical offset is looked up at the partition's leader, and when the leader is not known yet the look-up is
  tried again only after 500 ms. So metadata is asked for before an assignment.
- A seek or a new partition waits for the fetch that is under way: `fetch.wait.max.ms` is that delay.
- A consumer that is dropped without `close()` does not leave its group and commits nothing; a producer that
  is dropped leaves its transaction open. Both only stop their threads, which may take a while.
- `commit(asynchronous=False)`, `seek` and `close` have no timeout of their own: see `bounded`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.api import (
    Batch,
    ClientError,
    Consumer,
    Delivery,
    Kind,
    Rebalanced,
    Record,
    TopicPartition,
)
from harness.clients.bounded import bounded
from harness.clients.settings import Settings, settings
from harness.model.errors import BadInput

_EOF: Final = ck.KafkaError._PARTITION_EOF
CLOSE_TIMEOUT_S: Final = 5.0
METADATA_TIMEOUT_S: Final = 1.0
FETCH_WAIT_MS: Final = 100


def converted(error: Any) -> ClientError:
    """A ClientError from a KafkaException, KafkaError, or what `produce` raises when its queue is full."""
    found = error.args[0] if isinstance(error, ck.KafkaException) and error.args else error
    if not isinstance(found, ck.KafkaError):
        code = "_QUEUE_FULL" if isinstance(error, BufferError) else "_FAIL"
        return ClientError(code, str(error))
    kind: Kind = "plain"
    if found.fatal():
        kind = "fatal"
    elif found.txn_requires_abort():
        kind = "abortable"
    elif found.retriable():
        kind = "retriable"
    return ClientError(found.name(), found.str(), kind)


def _common(made: Settings) -> dict[str, Any]:
    request_timeout_s = made.request_timeout_s or min(3.0, made.patience_s / 3)
    return {
        "bootstrap.servers": made.bootstrap,
        "client.id": f"{made.run}-{made.process}",
        # Longer than the broker may take to answer a produce request, or its answer would never be heard.
        "socket.timeout.ms": int(request_timeout_s * 1000) + 1000,
        "socket.connection.setup.timeout.ms": 3000,
        "reconnect.backoff.max.ms": 1000,
        "log.connection.close": False,
        "enable.metrics.push": False,
    }


def producer_config(made: Settings) -> dict[str, Any]:
    """The library's properties for a producer; the user's own come last and win."""
    timeout_s = made.delivery_timeout_s or max(0.1, made.patience_s - 0.5)
    if made.txn:
        timeout_s = min(timeout_s, made.transaction_timeout_s)
    request_timeout_s = made.request_timeout_s or min(3.0, made.patience_s / 3)
    config = _common(made) | {
        "acks": made.acks,
        "linger.ms": 0,
        "message.timeout.ms": max(1, int(timeout_s * 1000)),
        "request.timeout.ms": max(1, int(request_timeout_s * 1000)),
        "enable.idempotence": made.idempotence or made.txn,
    }
    if made.retries is not None:
        config["message.send.max.retries"] = made.retries
    if made.txn:
        config["transactional.id"] = made.transactional_id or f"{made.run}-{made.process}"
        config["transaction.timeout.ms"] = int(made.transaction_timeout_s * 1000)
    return config | dict(made.producer_config)


def consumer_config(made: Settings) -> dict[str, Any]:
    """The library's properties for a consumer; the user's own come last and win."""
    session_ms = int(made.session_timeout_s * 1000)
    return (
        _common(made)
        | {
            "group.id": made.group_id,
            "isolation.level": made.isolation_level,
            "auto.offset.reset": made.auto_offset_reset,
            "enable.auto.commit": made.auto_commit,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(1, min(3000, session_ms // 6)),
            "queued.max.messages.kbytes": 16384,
        }
        | dict(made.consumer_config)
    )


def _made(make: Callable[[dict[str, Any]], Any], config: dict[str, Any], what: str) -> Any:
    try:
        return make(config)
    except (ck.KafkaException, ValueError, TypeError) as error:
        raise BadInput(f"{what} settings: {converted(error).text}; see --{what}-config") from None


def _dropped(holder: list[Any]) -> None:
    """Destroy what is in `holder`, the last reference, beside what comes next: it may take seconds."""
    threading.Thread(target=holder.clear, name="drop", daemon=True).start()


class ConfluentProducer:
    """`api.Transactions` over `confluent_kafka.Producer`."""

    def __init__(self, made: Settings) -> None:
        self._producer: Any = _made(ck.Producer, producer_config(made), "producer")

    def send(self, partition: TopicPartition, payload: bytes) -> Delivery:
        delivery = Delivery()

        def report(error: Any, message: Any) -> None:
            if error is not None:
                delivery.error = converted(error)
            elif message.offset() >= 0:
                delivery.offset = message.offset()
            delivery.done = True

        try:
            self._producer.produce(partition[0], payload, partition=partition[1], on_delivery=report)
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
                except ck.KafkaException as error:  # a fatal error, fenced for one, comes this way
                    raise converted(error) from None

    def _call(self, name: str, *args: Any) -> None:
        try:
            getattr(self._producer, name)(*args)
        except ck.KafkaException as error:
            raise converted(error) from None

    def init(self, timeout_s: float) -> None:
        self._call("init_transactions", max(0.0, timeout_s))

    def begin(self) -> None:
        self._call("begin_transaction")

    def send_offsets(
        self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float
    ) -> None:
        assert isinstance(consumer, ConfluentConsumer)
        self._call("send_offsets_to_transaction", _list(positions), consumer.group(), max(0.0, timeout_s))

    def commit(self, timeout_s: float) -> None:
        self._call("commit_transaction", max(0.0, timeout_s))

    def abort(self, timeout_s: float) -> None:
        self._call("abort_transaction", max(0.0, timeout_s))

    def close(self) -> None:
        # Not Producer.close(): it would flush without a bound.
        holder, self._producer = [self._producer], None
        _dropped(holder)


def _list(positions: Mapping[TopicPartition, int]) -> list[Any]:
    return [ck.TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]


class ConfluentConsumer:
    """`api.Consumer` over `confluent_kafka.Consumer`."""

    def __init__(self, made: Settings) -> None:
        self._consumer: Any = _made(ck.Consumer, consumer_config(made), "consumer")
        self._known: set[str] = set()

    def _learn(self, topics: set[str]) -> None:
        """Have the library know where new topics are; without an answer it finds out by itself, later."""
        for topic in sorted(topics - self._known):
            try:
                self._consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S)
            except ck.KafkaException:
                return
            self._known.add(topic)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._learn({topic for topic, _ in positions})
        try:
            self._consumer.assign(_list(positions))
        except ck.KafkaException as error:
            raise converted(error) from None

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None:
        def on(event: str) -> Callable[[Any, Sequence[Any]], None]:
            return lambda _, partitions: rebalanced(event, [(p.topic, p.partition) for p in partitions])

        try:
            self._consumer.subscribe(
                list(topics), on_assign=on("assigned"), on_revoke=on("revoked"), on_lost=on("lost")
            )
        except ck.KafkaException as error:
            raise converted(error) from None

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        records: list[Record] = []
        ends: dict[TopicPartition, int] = {}
        errors: list[ClientError] = []
        deadline = time.monotonic() + timeout_s
        try:
            messages = self._consumer.consume(records_max, 0)
            while True:
                for message in messages:
                    error = message.error()
                    if error is None:
                        records.append(
                            Record(message.topic(), message.partition(), message.offset(), message.value())
                        )
                    elif error.code() == _EOF:
                        ends[message.topic(), message.partition()] = message.offset()
                    else:
                        errors.append(converted(error))
                left_s = deadline - time.monotonic()
                if records or left_s <= 0:
                    return Batch(records, ends, errors)
                first = self._consumer.poll(left_s)
                messages = [] if first is None else [first, *self._consumer.consume(records_max - 1, 0)]
        except (ck.KafkaException, RuntimeError) as error:
            raise converted(error) from None

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
        """What `send_offsets_to_transaction` needs to fence this consumer (KIP-447)."""
        return self._consumer.consumer_group_metadata()

    def close(self, leave: bool) -> None:
        holder, self._consumer = [self._consumer], None
        if leave:
            bounded(holder[0].close, CLOSE_TIMEOUT_S, "leaving the group")
        _dropped(holder)


class Confluent:
    """`api.Library`."""

    def producer(self, made: Settings) -> ConfluentProducer:
        return ConfluentProducer(made)

    def consumer(self, made: Settings) -> ConfluentConsumer:
        return ConfluentConsumer(made)

    def admin(self, made: Settings) -> Any:
        from harness.clients.confluent_admin import ConfluentAdmin

        return ConfluentAdmin(_common(made))


def open_client(config: Mapping[str, Any]) -> Any:
    """A client of one process (`queue.QueueClient`)."""
    from harness.clients.queue import QueueClient

    return QueueClient(settings(config), Confluent())


def open_admin(config: Mapping[str, Any]) -> Any:
    """The admin role (`admin.AdminRole`)."""
    from harness.clients.admin import AdminRole

    made = settings(config)
    return AdminRole(Confluent().admin(made), made)
