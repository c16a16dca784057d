"""What a client library must offer: producing, transactions, consuming, administration, as plain data.

An adapter (`confluent/library.py`) wraps one library in these protocols; the logic of ops and transactions
(`queue.py`) is written once above them. Partitions are `(topic, partition)` pairs, offsets are ints, and
the logical ones are Kafka's own numbers. Every call that can wait takes a timeout in seconds and raises
`ClientError` when it passes; nothing else is raised for trouble with the cluster.
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
    """The fate of one send, filled in by its delivery report. `offset` is None when none was given."""

    done: bool = False
    offset: int | None = None
    error: ClientError | None = None

    @property
    def acknowledged(self) -> bool:
        return self.done and self.error is None


@dataclass(frozen=True, slots=True)
class Record:
    """A consumed record, as the library handed it over."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one poll gave.

    records  in the order of the library
    ends     partitions whose end was reached, and the position there: beyond the last record where
             transaction markers follow it
    errors   trouble that the library reported beside the records: it deals with it, unless it is fatal,
             which ended the poll after it had taken the rest
    """

    records: Sequence[Record] = ()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    errors: Sequence[ClientError] = ()


Rebalanced = Callable[[str, Sequence[TopicPartition], Mapping[TopicPartition, int | None]], None]
"""Called from within `Consumer.poll` and `close` with assigned | revoked | lost, the partitions, and, where
they were assigned and the group has answered, the offsets that it has committed (None: none)."""


class Producer(Protocol):
    """Sends records. Not thread-safe."""

    def send(self, partition: TopicPartition, payload: bytes) -> Delivery:
        """Hand a record over. Raises ClientError when the library refuses it: then it is never sent."""

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        """Until every one is done. Raises ClientError `_TIMED_OUT` when some are not in time."""

    def close(self) -> None:
        """Give up at once: what is in flight stays uncertain, a transaction is left open."""


class Transactions(Producer, Protocol):
    """A producer with a transactional id."""

    def init(self, timeout_s: float) -> None:
        """Fence older producers of the same id and abort what they left open. Once, before the rest."""

    def begin(self) -> None: ...
    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float) -> None:
        """Commit the consumer's positions with the transaction."""

    def commit(self, timeout_s: float) -> None:
        """Returns when the commit is acknowledged. May be called again after a retriable error."""

    def abort(self, timeout_s: float) -> None:
        """Returns when the abort is acknowledged. May be called again after a retriable error."""


class Consumer(Protocol):
    """Reads records; assigned or subscribed, never both in its life. Not thread-safe."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from these offsets."""

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None: ...
    def poll(self, timeout_s: float, records_max: int) -> Batch:
        """What is there; waits for the first record at most `timeout_s`. Raises ClientError only when it has
        taken nothing: trouble after that is a fatal error of the batch."""

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None: ...
    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit to the group, and wait for the answer."""

    def close(self, leave: bool) -> None:
        """With `leave`, tell the group; else vanish as a crashed process would."""


class Admin(Protocol):
    """Administration and metadata. Values are plain JSON data."""

    def create_topics(
        self,
        names: Sequence[str],
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        timeout_s: float = 30.0,
    ) -> list[str]:
        """Make those that do not exist yet, and wait until every partition has a leader. Those made."""

    def partitions(self, names: Sequence[str] | None = None, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        """{"topic", "partition", "leader": id or None, "replicas": [ids, the preferred leader first],
        "isr": [ids]} of the named topics, or of all."""

    def offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float = 5.0
    ) -> dict[TopicPartition, tuple[int, int]]:
        """(log start, end) of each; `end` is the last stable offset under read_committed."""

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_s: float = 10.0
    ) -> dict[TopicPartition, int]:
        """Delete what is below an offset; where each log begins now (KIP-107)."""

    def elect(
        self, partitions: Sequence[TopicPartition], unclean: bool, timeout_s: float = 10.0
    ) -> dict[TopicPartition, str]:
        """Have preferred replicas lead, or, `unclean`, any that live where none in sync does. Each one's
        error by name, empty for none (KIP-183, KIP-460)."""

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float = 10.0) -> None:
        """Move partitions to brokers, the preferred leader first; returns when that has begun (KIP-455)."""

    def add_partitions(self, totals: Mapping[str, int], timeout_s: float = 10.0) -> None:
        """Grow topics to so many partitions each (KIP-195)."""

    def change_configs(self, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float = 10.0) -> None:
        """Change topics' settings; None takes one back (KIP-339)."""

    def configs(
        self, topics: Sequence[str], names: Sequence[str], timeout_s: float = 10.0
    ) -> dict[str, dict[str, str]]:
        """topic -> setting -> the value in force."""

    def broker_configs(self, names: Sequence[str], timeout_s: float = 10.0) -> dict[str, dict[str, str]]:
        """Broker id -> setting -> the value in force, of each broker that answers."""

    def features(self, timeout_s: float = 5.0) -> dict[str, int] | None:
        """Feature -> the level in force; None where brokers name none."""

    def unregister(self, broker: int, timeout_s: float = 10.0) -> None:
        """Have the cluster forget a broker that does not run; in KRaft mode only."""

    def delete_topics(self, names: Sequence[str], timeout_s: float = 30.0) -> None:
        """Delete topics, and wait until they are gone; what is not there is no error."""

    def forbidden(self, topic: str, timeout_s: float = 10.0) -> list[str]:
        """What this client may not do with a topic and would have to, "Write on topics"."""

    def cluster(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """{"controller": id or None, "brokers": {id: "host:port"}}."""

    def close(self) -> None: ...


class Library(Protocol):
    """Makes the parts of a client from its settings (`settings.Settings`)."""

    def producer(self, settings: Any) -> Transactions: ...
    def consumer(self, settings: Any) -> Consumer: ...
    def admin(self, settings: Any) -> Admin: ...
