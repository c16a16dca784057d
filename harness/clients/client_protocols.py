"""The protocols that an adapter implements for its client library: producer, consumer and admin client.

An adapter (such as `confluent/adapter.py`) wraps one library in these protocols; the logic of ops and transactions
(`queue.py`) uses only them. Partitions are `(topic, partition)` pairs, offsets are ints, and logical offsets are
librdkafka's numbers. Every call that can block takes a timeout in seconds. On timeout, and on any other problem
with the cluster, calls raise `ClientError` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from harness.protocol.error_codes import ClientError, TopicPartition

# Logical offsets, as librdkafka numbers them (rdkafka.h, RD_KAFKA_OFFSET_*).
BEGINNING: Final = -2
END: Final = -1
STORED: Final = -1000


@dataclass(slots=True)
class Delivery:
    """The outcome of one send, set by its delivery report. `offset` is None if the report has none."""

    done: bool = False
    offset: int | None = None
    error: ClientError | None = None

    @property
    def acknowledged(self) -> bool:
        return self.done and self.error is None


@dataclass(frozen=True, slots=True)
class Record:
    """A consumed record, as the library returned it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one poll.

    records  in the order of the library
    ends     partitions whose end was reached, with the position there, which is behind any transaction markers
             that follow the last record
    errors   errors that the library reported in addition to the records. It handles them itself, except for a
             fatal one, which ended the poll after the records had been taken
    """

    records: Sequence[Record] = ()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    errors: Sequence[ClientError] = ()


Rebalanced = Callable[[str, Sequence[TopicPartition], Mapping[TopicPartition, int | None]], None]
"""Called within `Consumer.poll` and `close` with assigned | revoked | lost, the partitions, and for assigned ones
the group's committed offsets (None: none committed); these are empty if the coordinator did not answer."""


class Producer(Protocol):
    """Sends records. Not thread-safe."""

    def send(self, partition: TopicPartition, payload: bytes) -> Delivery:
        """Queue a record. Raises ClientError if the library refuses it; then it is never sent."""

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        """Wait until every delivery is done. Raises ClientError `_TIMED_OUT` if some are not in time."""

    def close(self) -> None:
        """Close at once: sends in flight stay indeterminate, and an open transaction is left open."""


class Transactions(Producer, Protocol):
    """A producer with a transactional id."""

    def init(self, timeout_s: float) -> None:
        """Fence older producers with the same transactional id, and abort their open transaction. Call it once,
        before all other methods."""

    def begin(self) -> None: ...
    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float) -> None:
        """Add the consumer's positions to the transaction, as offsets that it commits."""

    def commit(self, timeout_s: float) -> None:
        """Commit, and return when it is acknowledged. May be called again after a retriable error."""

    def abort(self, timeout_s: float) -> None:
        """Abort, and return when it is acknowledged. May be called again after a retriable error."""


class Consumer(Protocol):
    """Reads records. A consumer is either assigned or subscribed, for its whole lifetime. Not thread-safe."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from these offsets."""

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None: ...
    def poll(self, timeout_s: float, records_max: int) -> Batch:
        """Return the available records; wait up to `timeout_s` for the first. Raises ClientError only if no record
        has been taken; an error after that is a fatal error in the batch."""

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None: ...
    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit offsets for the group, and wait for the response."""

    def close(self, leave: bool) -> None:
        """Close; with `leave`, leave the group first, otherwise disappear like a crashed process."""


class Admin(Protocol):
    """Admin requests and metadata. Values are plain JSON data."""

    def create_topics(
        self,
        names: Sequence[str],
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        timeout_s: float = 30.0,
    ) -> list[str]:
        """Create the topics that do not exist, and wait until all partitions have leaders. Returns the names of
        those created."""

    def partitions(self, names: Sequence[str] | None = None, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        """Return {"topic", "partition", "leader": id or None, "replicas": [ids, the preferred leader first],
        "isr": [ids]} for each partition of the named topics, or of all topics."""

    def offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float = 5.0
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return (log start offset, end offset) of each; under read_committed, the end is the last stable offset."""

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_s: float = 10.0
    ) -> dict[TopicPartition, int]:
        """Delete the records below an offset in each partition. Returns the new log start offsets (KIP-107)."""

    def elect(
        self, partitions: Sequence[TopicPartition], unclean: bool, timeout_s: float = 10.0
    ) -> dict[TopicPartition, str]:
        """Elect preferred leaders or, with `unclean`, any live replica where no in-sync replica is alive.

        Returns the error name of each partition, empty for success (KIP-183, KIP-460).
        """

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float = 10.0) -> None:
        """Start moving partitions to brokers, the preferred leader first. Does not wait for the end (KIP-455)."""

    def add_partitions(self, totals: Mapping[str, int], timeout_s: float = 10.0) -> None:
        """Increase the number of partitions of topics to these totals (KIP-195)."""

    def change_configs(self, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float = 10.0) -> None:
        """Change topics' settings; None resets one to its default (KIP-339)."""

    def configs(
        self, topics: Sequence[str], names: Sequence[str], timeout_s: float = 10.0
    ) -> dict[str, dict[str, str]]:
        """Return topic -> setting -> effective value."""

    def broker_configs(self, names: Sequence[str], timeout_s: float = 10.0) -> dict[str, dict[str, str]]:
        """Return broker id -> setting -> effective value, for each broker that answers."""

    def features(self, timeout_s: float = 5.0) -> dict[str, int] | None:
        """Return feature -> finalized level; None if brokers do not report features."""

    def unregister(self, broker: int, timeout_s: float = 10.0) -> None:
        """Unregister a stopped broker from the cluster; in KRaft mode only."""

    def delete_topics(self, names: Sequence[str], timeout_s: float = 30.0) -> None:
        """Delete topics, and wait until they are gone. A topic that does not exist is no error."""

    def forbidden(self, topic: str, timeout_s: float = 10.0) -> list[str]:
        """Return the permissions on the topic that a run needs and this client lacks, such as "Write on topics"."""

    def cluster(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """Return {"controller": id or None, "brokers": {id: "host:port"}}."""

    def close(self) -> None: ...


class Library(Protocol):
    """Creates the producers, consumers and admin clients of a library from `settings.Settings`."""

    def producer(self, settings: Any) -> Transactions: ...
    def consumer(self, settings: Any) -> Consumer: ...
    def admin(self, settings: Any) -> Admin: ...
