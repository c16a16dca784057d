"""The log model beside a real broker: the same actions, and the same offsets, segments and records.

Records are whole hours old and retention lies between hours, so that no step depends on how fast it is. What
a broker does in its own time is waited for. Retention only becomes shorter: a change that comes late then
ends where one in time would.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from harness.cluster import local
from harness.model.draw import Draw
from harness.sim.actions import Action, Outcome, resolve
from harness.sim.records import LogSettings
from harness.sim.simulated import SimulatedLog
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long]

HOUR_MS = 3_600_000
STEPS = 30
FAST = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "300"}
SETTINGS = {"segment.bytes": str(1 << 20), "segment.ms": "60000", "retention.ms": "-1"}
BIG = "x" * 600_000  # two of them do not fit in a segment; for the others their size does not matter


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """One broker's address, and the folder that holds its data."""
    folder = tmp_path_factory.mktemp("broker")
    cluster = local.make(nodes=1, mode="loopback", work_dir=folder / "cluster", broker_config=FAST)
    try:
        cluster.up(print)
        yield cluster.bootstrap, folder
    finally:
        cluster.down()


class BrokerLog:
    """A topic with one partition on a broker, which takes some of the actions."""

    def __init__(self, bootstrap: str, folder: Path, name: str) -> None:
        self._at, self._name, self._folder = TopicPartition(name, 0), name, folder
        self._bootstrap = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._bootstrap)
        self._admin.create_topics([NewTopic(name, 1, 1, config=SETTINGS)])[name].result(30)
        # What is sent together is one batch: nothing goes before `flush`.
        settings = {**self._bootstrap, "linger.ms": 30_000, "acks": "all"}
        self._plain = Producer(settings)
        self._txn = Producer({**settings, "transactional.id": name})
        self._txn.init_transactions(30)

    def apply(self, action: Action) -> Outcome:
        if action.f == "append":
            if action.arg("txn"):
                self._txn.begin_transaction()
            self._append(self._txn if action.arg("txn") else self._plain, action)
        elif action.f == "commit":
            self._txn.commit_transaction(30)
        elif action.f == "abort":
            self._txn.abort_transaction(30)
        elif action.f == "set":
            entry = ConfigEntry("retention.ms", str(action.arg("value")))
            entry.incremental_operation = AlterConfigOpType.SET
            resource = ConfigResource(ConfigResource.Type.TOPIC, self._name, incremental_configs=[entry])
            self._admin.incremental_alter_configs([resource])[resource].result(30)
        elif action.f == "delete-records":
            return self._delete(action.arg("at"))
        elif action.f == "list":
            past = int(time.time() * 1000) - action.arg("age")
            return Outcome(value=self._offset(OffsetSpec.for_timestamp(past)))
        return Outcome()

    def _append(self, producer: Producer, action: Action) -> None:
        now = int(time.time() * 1000)
        for key, value, age in action.arg("records"):
            producer.produce(self._name, value, key, partition=0, timestamp=now - age)
        assert producer.flush(30) == 0

    def _delete(self, at: int) -> Outcome:
        try:
            deleted = self._admin.delete_records([TopicPartition(self._name, 0, at)])[self._at].result(30)
            return Outcome(value=deleted.low_watermark)
        except KafkaException as error:
            return Outcome(error.args[0].name())

    def _offset(self, spec: Any) -> int:
        found = self._admin.list_offsets({self._at: spec})[self._at].result(30)
        return int(found.offset)

    def seen(self) -> tuple[int, int, list[int]]:
        """Log start, log end, and the base offsets of the segments on disk."""
        files = self._folder.rglob(f"{self._name}-0/*.log")
        ends = self._offset(OffsetSpec.earliest()), self._offset(OffsetSpec.latest())
        return *ends, sorted(int(file.stem) for file in files)

    def values(self, isolation: str) -> list[tuple[int, str]]:
        """(offset, value) of every record."""
        settings = {
            **self._bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
        consumer, found = Consumer(settings), []
        consumer.assign([TopicPartition(self._name, 0, self.seen()[0])])
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found.append((message.offset(), message.value().decode()))
        assert message is not None and message.error().code() == KafkaError._PARTITION_EOF
        consumer.close()
        return found


def drawn(seed: int, n: int, retention_ms: int) -> list[Action]:
    """The n-th step: an action, or those of a transaction."""
    draw = Draw.of(seed, "broker-log", n)
    f = draw.choice(("append", "append", "append", "txn", "delete-records", "set", "list"))
    if f in ("append", "txn"):
        age, big = HOUR_MS * draw.choice((0, 1, 2, 2, 3, 3)), draw.choice(("", BIG))
        # A pass between the records and the marker of a transaction must not find them due.
        age = 0 if f == "txn" else age
        batch = {"records": [["k", f"{n}.{at}{big}", age - at] for at in range(1 if big else 3)]}
        if f == "append":
            return [Action("append", batch)]
        ends = Action(draw.choice(("commit", "abort")), {"producer": 2})
        return [Action("append", {"producer": 2, "txn": True, **batch}), ends]
    if f == "delete-records":
        at = draw.choice(("second", "hw", f"{draw.below(100)}%", "hw+1"))
        return [Action("delete-records", {"at": at})]
    if f == "list":
        return [Action("list", {"what": "time", "age": HOUR_MS * draw.between(0, 3) + HOUR_MS // 2})]
    shorter = retention_ms - HOUR_MS if retention_ms > HOUR_MS else retention_ms
    return [Action("set", {"name": "retention_ms", "value": shorter})]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_broker_does_what_the_model_says(broker: tuple[str, Path], seed: int) -> None:
    real = BrokerLog(*broker, f"model{seed}")
    model = SimulatedLog(LogSettings(segment_bytes=1 << 20, segment_ms=60_000))
    model.apply(Action("tick", {"ms": 100 * HOUR_MS}))
    retention_ms, done = 2 * HOUR_MS + HOUR_MS // 2, []
    for n in range(STEPS):
        for action in drawn(seed, n, retention_ms):
            exact = resolve(action, model.views())
            expected, got = model.apply(exact), real.apply(exact)
            done.append(exact.text()[:100])
            if action.f in ("delete-records", "list"):
                assert got == expected, done
            if action.f == "set":
                retention_ms = action.arg("value")
        model.apply(Action("advance", {"at": 1 << 40}))
        model.apply(Action("check"))
        view = model.views()[0]
        wanted = (view.start, view.end, [span.base for span in view.local])
        assert eventually(lambda: real.seen() == wanted, 60), (done, real.seen(), wanted)  # noqa: B023
    for isolation in ("read_uncommitted", "read_committed"):
        records, _ = model.apply(Action("read-all", {"isolation": isolation})).value
        assert real.values(isolation) == [(offset, value) for offset, _, _, value in records]
