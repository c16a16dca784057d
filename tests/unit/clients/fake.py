"""A client library over the simulated log whose calls fail as a test says.

`errors[call]` is a list of what the next calls of that name do: None (as usual) or a ClientError to raise;
for "report" the error goes into the delivery report instead. An error whose text begins with "done" is raised
after the call has done its work: the answer was lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from harness.clients.client_protocols import BEGINNING, END, Batch, Delivery, Record
from harness.clients.queue import QueueClient
from harness.clients.settings import Settings, parse_settings
from harness.model.op import Op, invoke
from harness.protocol.error_codes import ClientError, TopicPartition
from harness.sim.queue.log import SimLog


class FakeLibrary:
    """Counts what was made, in `producers` and `consumers`; `committed` holds the group's offsets."""

    def __init__(self, log: SimLog | None = None) -> None:
        self.log = log or SimLog()
        self.errors: defaultdict[str, list[ClientError | None]] = defaultdict(list)
        self.calls: list[str] = []
        self.committed: dict[TopicPartition, int] = {}
        self.assigned: list[dict[TopicPartition, int]] = []
        self.producers: list[FakeProducer] = []
        self.consumers: list[FakeConsumer] = []

    def producer(self, made: Settings) -> FakeProducer:
        self.producers.append(FakeProducer(self, made))
        return self.producers[-1]

    def consumer(self, made: Settings) -> FakeConsumer:
        self.consumers.append(FakeConsumer(self, made))
        return self.consumers[-1]

    def admin(self, made: Settings) -> FakeAdmin:
        return FakeAdmin(self, made)

    def before(self, call: str) -> ClientError | None:
        """Note the call; raise its error, or return one to raise once the work is done."""
        self.calls.append(call)
        error = self.errors[call].pop(0) if self.errors[call] else None
        if error is not None and not error.text.startswith("done"):
            raise error
        return error


class FakeProducer:
    def __init__(self, library: FakeLibrary, made: Settings) -> None:
        self._library, self._made, self._txn = library, made, -1
        self._offsets: dict[TopicPartition, int] = {}
        self.closed = False

    def send(self, partition: TopicPartition, payload: bytes) -> Delivery:
        self._library.before("send")
        key = self._made.key(*partition)
        assert key is not None
        errors = self._library.errors["report"]
        error = errors.pop(0) if errors else None
        if error is not None and not error.text.startswith("done"):
            return Delivery(True, None, error)
        offset = self._library.log.append(key, payload, self._txn if self._made.txn else None)
        return Delivery(True, None if error else offset, error)

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        self._library.before("wait")

    def close(self) -> None:
        self.closed = True

    def _call(self, name: str, work: Any) -> None:
        late = self._library.before(name)
        work()
        if late is not None:
            raise late

    def init(self, timeout_s: float) -> None:
        self._library.before("init")

    def begin(self) -> None:
        self._library.before("begin")
        self._txn, self._offsets = self._library.log.begin(), {}

    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Any, timeout_s: float) -> None:
        self._call("send_offsets", lambda: self._offsets.update(positions))

    def commit(self, timeout_s: float) -> None:
        def commit() -> None:
            self._library.log.commit(self._txn)
            self._library.committed.update(self._offsets)

        self._call("commit", commit)

    def abort(self, timeout_s: float) -> None:
        self._call("abort", lambda: self._library.log.abort(self._txn))


class FakeConsumer:
    """One consumer alone in its group: a subscription gets its partitions at the next poll."""

    def __init__(self, library: FakeLibrary, made: Settings) -> None:
        self._library, self._made = library, made
        self._at: dict[TopicPartition, int] = {}
        self._joining: Sequence[str] = ()
        self._rebalanced: Any = None
        self.foreign: list[Record] = []
        self.errors: list[ClientError] = []
        self.left: bool | None = None

    def _start(self, partition: TopicPartition, offset: int) -> int:
        key = self._made.key(*partition)
        assert key is not None
        log = self._library.log
        return {BEGINNING: 0, END: log.end(key, self._made.isolation_level)}.get(offset, offset)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._library.before("assign")
        self._library.assigned.append(dict(positions))
        self._at = {partition: self._start(partition, offset) for partition, offset in positions.items()}

    def subscribe(self, topics: Sequence[str], rebalanced: Any) -> None:
        self._library.before("subscribe")
        self._joining, self._rebalanced = topics, rebalanced

    def rebalance(self) -> None:
        """Everything is revoked and assigned again."""
        self._rebalanced("revoked", list(self._at), {})
        self._joining = sorted({topic for topic, _ in self._at})

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        self._library.before("poll")
        if self._joining:
            count = self._made.partitions_per_topic
            gained = [(topic, number) for topic in self._joining for number in range(count)]
            self._joining = ()
            self._rebalanced("assigned", gained, {at: self._library.committed.get(at) for at in gained})
            self._at = {at: self._library.committed.get(at, 0) for at in gained}
        records, ends = list(self.foreign), {}
        for partition, at in sorted(self._at.items()):
            key = self._made.key(*partition)
            assert key is not None
            found, after = self._library.log.read(key, at, records_max, self._made.isolation_level)
            records += [Record(*partition, offset, value) for offset, value in found]
            self._at[partition] = after
            ends[partition] = after
        errors, self.errors = self.errors, []
        return Batch(records, ends, errors)

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._library.before("seek")
        self._at |= positions

    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._library.before("commit_offsets")
        self._library.committed.update(positions)

    def close(self, leave: bool) -> None:
        self.left = leave


class FakeAdmin:
    def __init__(self, library: FakeLibrary, made: Settings) -> None:
        self._library, self._made = library, made

    def partitions(self, names: Sequence[str] | None = None, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        self._library.before("partitions")
        return [
            {"topic": name, "partition": number, "leader": 1, "isr": [1, 2]}
            for name in names or ()
            for number in range(self._made.partitions_per_topic)
            if not name.endswith("-9")
        ]

    def offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float = 5.0
    ) -> dict[TopicPartition, tuple[int, int]]:
        self._library.before("offsets")
        log, made = self._library.log, self._made
        keys = {at: made.key(*at) for at in partitions}
        return {at: (0, log.end(k, isolation_level)) for at, k in keys.items() if k is not None}

    def create_topics(self, *_: Any, **__: Any) -> list[str]:
        return []

    def cluster(self, timeout_s: float = 5.0) -> dict[str, Any]:
        return {"controller": 1, "brokers": {}}

    def close(self) -> None:
        self._library.before("close_admin")


class Driver:
    """A client over a fake library; `do` invokes an op with the next index."""

    def __init__(self, library: FakeLibrary | None = None, **config: Any) -> None:
        self.library = library or FakeLibrary()
        given = {"bootstrap": "nowhere", "run": "r", "poll_ms": 0, "op_timeout_s": 0.5} | config
        self.client = QueueClient(parse_settings(given), self.library)
        self._index = 0

    def do(self, f: str, value: Any = None, **extra: Any) -> Op:
        self._index += 2
        return self.client.invoke(invoke(f, value, 0, extra).with_(index=self._index))
