"""The protocols that an adapter implements for its client library: producer, consumer and admin client.

An adapter (such as `confluent/adapter.py`) wraps a library in these protocols. The code that carries out ops and
transactions (`queue.py`) uses only the protocols. Partitions are `(topic, partition)` pairs, offsets are ints, and
logical offsets have librdkafka's numbers. Every call that can block takes a timeout in seconds. If a call times out, or
has any other problem with the cluster, it raises `ClientError`; calls raise no other exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from harness.protocol.error_codes import ClientError, TopicPartition

# Logical offsets, as librdkafka numbers them (rdkafka.h, RD_KAFKA_OFFSET_*).
BEGINNING: Final = -2
END: Final = -1
STORED: Final = -1000


@dataclass(slots=True)
class Delivery:
    """The outcome of one send. The delivery report sets it.

    offset  offset of the record; None if the delivery report contains none
    """

    done: bool = False
    offset: int | None = None
    error: ClientError | None = None

    @property
    def acknowledged(self) -> bool:
        return self.done and self.error is None


@dataclass(frozen=True, slots=True)
class Record:
    """A consumed record, as the library returned it.

    deliveries  how often a share group had delivered the record by then; None outside share groups
    """

    topic: str
    partition: int
    offset: int
    value: bytes | None
    deliveries: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one poll.

    records  in the order in which the library returned them
    ends     partition -> its end position, for each partition whose end the poll reached; this position is past any
             transaction markers that follow the last record
    errors   errors that the library reported besides the records; the library recovers from them by itself, unless the
             error is fatal: a fatal error ended the poll, but the records polled before it are valid
    """

    records: Sequence[Record] = ()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    errors: Sequence[ClientError] = ()


Rebalanced = Callable[[str, Sequence[TopicPartition], Mapping[TopicPartition, int | None]], None]
"""Called within `Consumer.poll` and `close` with the event (assigned | revoked | lost), the partitions, and, for
`assigned`, partition -> the group's committed offset (None: none committed). This mapping is empty if the coordinator
did not answer."""


class Producer(Protocol):
    """Sends records. Not thread-safe."""

    def send(self, partition: TopicPartition, payload: bytes) -> Delivery:
        """Queues a record.

        Raises ClientError if the library refuses the record. A refused record is never sent.
        """

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        """Waits until every delivery is done. Raises ClientError `_TIMED_OUT` if this takes longer than `timeout_s`."""

    def close(self) -> None:
        """Closes the producer immediately. Does not wait for sends in flight, and leaves an open transaction open."""


@runtime_checkable
class Keyed(Protocol):
    """A producer that can give its records keys, for compacted topics."""

    def send_keyed(self, partition: TopicPartition, key: bytes, payload: bytes, tombstone: bool) -> Delivery:
        """Queues a record with a key. A tombstone has no value; its payload is in a header, where polls find it.

        Raises ClientError if the library refuses the record. A refused record is never sent.
        """


class Transactions(Producer, Protocol):
    """A producer with a transactional id, and its transactions."""

    def init(self, timeout_s: float) -> None:
        """Fences older producers with the same transactional id, and aborts their open transaction.

        Must be called once, before all other methods.
        """

    def begin(self) -> None: ...
    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float) -> None:
        """Adds the consumer's positions to the transaction, so that its commit also commits them for the group."""

    def commit(self, timeout_s: float) -> None:
        """Commits the transaction, and returns when the commit has been acknowledged.

        May be called again after a retriable error.
        """

    def abort(self, timeout_s: float) -> None:
        """Aborts the transaction, and returns when the abort has been acknowledged.

        May be called again after a retriable error.
        """


class Consumer(Protocol):
    """Reads records. During its whole lifetime, a consumer is either assigned or subscribed. Not thread-safe."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Assigns exactly these partitions, each to be read from the given offset."""

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None:
        """Subscribes to topics. A name that begins with ^ is a regular expression, and then the only one."""

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        """Waits up to `timeout_s` for the first record, and returns the available records.

        Raises ClientError if the consumer fails before it has returned a record. If it fails later, the batch contains
        the records and the fatal error.
        """

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None: ...
    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commits offsets for the group, and waits for the response."""

    def close(self, leave: bool) -> None:
        """Closes the consumer.

        With `leave`, it leaves the group first; otherwise it disappears like a crashed process.
        """


class Admin(Protocol):
    """Makes admin and metadata requests. Arguments and results are plain data."""

    def create_topics(
        self,
        names: Sequence[str],
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        timeout_s: float = 30.0,
    ) -> list[str]:
        """Creates the named topics, except those that exist already, and waits until every partition has a leader.

        Returns the names of the topics that it created.
        """

    def partitions(self, names: Sequence[str] | None = None, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        """Returns a dict for each partition of the named topics, or of all topics:

        {"topic", "partition", "leader": id or None, "replicas": [ids, the preferred leader first], "isr": [ids]}
        """

    def offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float = 5.0
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Returns partition -> (log start offset, end offset).

        Under read_committed, the end offset is the last stable offset.
        """

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_s: float = 10.0
    ) -> dict[TopicPartition, int]:
        """Deletes, in each partition, the records below the given offset (KIP-107).

        Returns partition -> new log start offset.
        """

    def elect(
        self, partitions: Sequence[TopicPartition], unclean: bool, timeout_s: float = 10.0
    ) -> dict[TopicPartition, str]:
        """Makes the preferred replica of each partition its leader (KIP-183).

        With `unclean`, elects any live replica instead, in partitions without a live in-sync replica (KIP-460).
        Returns partition -> error name, which is empty for success.
        """

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float = 10.0) -> None:
        """Starts moving partitions to the given brokers (KIP-455). Does not wait until they have been moved.

        replicas  partition -> broker ids, the preferred leader first
        """

    def add_partitions(self, totals: Mapping[str, int], timeout_s: float = 10.0) -> None:
        """Increases the number of partitions of each topic to the given total (KIP-195)."""

    def change_configs(self, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float = 10.0) -> None:
        """Changes settings of topics; the value None resets a setting to its default (KIP-339)."""

    def configure_groups(self, groups: Sequence[str], changes: Mapping[str, str], timeout_s: float = 10.0) -> None:
        """Sets settings of groups, which need not exist yet (KIP-1043)."""

    def configs(
        self, topics: Sequence[str], names: Sequence[str], timeout_s: float = 10.0
    ) -> dict[str, dict[str, str]]:
        """Returns topic -> setting -> effective value, for the named settings."""

    def broker_configs(self, names: Sequence[str], timeout_s: float = 10.0) -> dict[str, dict[str, str]]:
        """Returns broker id -> setting -> effective value. Brokers that do not respond are omitted."""

    def features(self, timeout_s: float = 5.0) -> dict[str, int] | None:
        """Returns name of feature -> finalized level. Returns None if brokers report no features."""

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float = 5.0
    ) -> dict[TopicPartition, int | None]:
        """Returns partition -> the group's committed offset; None if the group has committed none.

        An offset that belongs to an open transaction raises UNSTABLE_OFFSET_COMMIT.
        """

    def group(self, group: str, timeout_s: float = 5.0) -> dict[str, Any]:
        """Returns {"state", "members": [[client id, host], ...]} of a consumer group, as its coordinator reports it."""

    def topic_ids(self, names: Sequence[str], timeout_s: float = 5.0) -> dict[str, str]:
        """Returns topic -> topic id, in base64 as Kafka writes it, for the named topics (KIP-516)."""

    def unregister(self, broker: int, timeout_s: float = 10.0) -> None:
        """Unregisters a stopped broker from the cluster. Works only in KRaft mode."""

    def set_features(self, levels: Mapping[str, int], downgrade: bool, timeout_s: float = 10.0) -> None:
        """Sets the finalized levels of features (KIP-584). With `downgrade`, levels may go down if no metadata is lost.

        levels  feature -> level; 0 disables the feature
        """

    def delete_topics(self, names: Sequence[str], timeout_s: float = 30.0) -> None:
        """Deletes topics, and waits until the topics are gone. It is not an error if a topic does not exist."""

    def forbidden(self, topic: str, timeout_s: float = 10.0) -> list[str]:
        """Returns the permissions on the topic that a run needs but this client lacks, such as "Write on topics"."""

    def cluster(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """Returns {"controller": id or None, "brokers": {id: "host:port"}}."""

    def close(self) -> None: ...


class Library(Protocol):
    """Creates the producers, consumers and admin clients of a library from `settings.Settings`."""

    def producer(self, settings: Any) -> Transactions: ...
    def consumer(self, settings: Any) -> Consumer: ...
    def admin(self, settings: Any) -> Admin: ...
