"""`harness qos` on a real broker: known gaps and duplicates, interruptions, and refusals."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster.local import namespaced_cluster
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.spec import ClusterSpec
from tests.e2e.harness_command import HARNESS, harness
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]
PAST, MORE, LAST = range(10_000), range(10_000, 15_000), range(15_000, 20_000)
TOO_LATE = range(20_000, 21_000)
SPAN_MS = 100_000
WINDOW_MS = 10_000
COMPARE = ("--window", "10s", "--padding", "10s", "--every", "500ms")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """A single broker, on a port of this machine."""
    cluster = namespaced_cluster.make(
        ClusterSpec(nodes=1, work_dir=tmp_path_factory.mktemp("cluster"), network="loopback")
    )
    try:
        cluster.up(lambda text: None)
        yield cluster
    finally:
        cluster.down()


class Load:
    """Inputs with ids 0, 1, ..., the first of them in the past, and outputs with gaps and duplicates."""

    def __init__(self, bootstrap: str) -> None:
        self.input, self.output = (f"{side}-{secrets.token_hex(3)}" for side in ("in", "out"))
        admin: Any = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(self.input, 4, 1), NewTopic(self.output, 3, 1)]).values():
            future.result(timeout=60)
        self._plain: Any = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self._txn: Any = Producer({"bootstrap.servers": bootstrap, "transactional.id": self.output, "log_level": 0})
        self._txn.init_transactions(60)
        self._began_ms = _now_ms() - SPAN_MS
        self._at: dict[int, int] = {}
        self.missing, self.copies = Counter[int](), Counter[int]()

    def at(self, id: int) -> int:
        past = self._began_ms + id * SPAN_MS // len(PAST) if id in PAST else _now_ms()
        return self._at.setdefault(id, past)

    def send(self, ids: range) -> None:
        """Sends ids, and also outputs that are aborted and must not be counted."""
        for id in ids:
            self._put(self._plain, self.input, id, {"order": id}, self.at(id))
        assert self._plain.flush(60) == 0
        self._txn.begin_transaction()
        for id in ids:
            times = 0 if id % 997 == 3 else 3 if id % 1999 == 5 else 1
            window = self.at(id) - self.at(id) % WINDOW_MS
            self.missing[window] += times == 0
            self.copies[window] += max(0, times - 1)
            for _ in range(times):
                self._put(self._txn, self.output, id, {"of": id}, _now_ms())
        self._txn.commit_transaction(60)
        self._txn.begin_transaction()
        for id in ids[:50]:
            self._put(self._txn, self.output, id, {"of": id}, _now_ms())
        self._txn.flush(60)
        self._txn.abort_transaction(60)

    def _put(self, producer: Any, topic: str, id: int, value: dict[str, int], at_ms: int) -> None:
        while True:
            try:
                producer.produce(topic, json.dumps(value).encode(), key=f"{id % 7}".encode(), timestamp=at_ms)
                return
            except BufferError:
                producer.poll(0.1)

    def options(self, bootstrap: str, checkpoint: Path) -> list[str]:
        keys = [f"get_json_object(cast(value as string), '$.{name}')" for name in ("order", "of")]
        return [
            "qos", "--input", self.input, "--output", self.output, "--bootstrap", bootstrap, *COMPARE,
            "--input-key", keys[0], "--output-key", keys[1], "--checkpoint", str(checkpoint),
        ]  # fmt: skip


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def windows(checkpoint: Path) -> dict[int, dict[str, Any]]:
    """The last complete line of each window."""
    path = checkpoint / "windows.jsonl"
    whole = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in whole if line.endswith("\n")]
    return {row["start_ms"]: row for row in rows}


def test_holes_and_copies_are_found_whatever_is_killed(
    broker: LoopbackCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Interruptions in turn: the broker, the check itself, and deletion of the start of the topic."""
    away_s = 60 if request.config.getoption("--soak") else 12
    bootstrap = broker.bootstrap
    load, checkpoint, output = Load(bootstrap), tmp_path / "checkpoint", tmp_path / "output"
    load.send(PAST)
    argv = [*HARNESS, *load.options(bootstrap, checkpoint)]
    with output.open("w") as stream:
        first = subprocess.Popen(argv, stdout=stream, stderr=subprocess.STDOUT)
    try:
        # The alarm is raised during the load, and its page shows it.
        alarm = lambda: len(windows(checkpoint)) > 5 and "ALARM" in output.read_text()  # noqa: E731
        assert eventually(alarm, 400), output.read_text()
        page = output.read_text().split("http://")[1].split("/")[0]
        with urllib.request.urlopen(f"http://{page}/windows.json", timeout=30) as answer:
            shown = json.load(answer)
        assert shown["verdict"] == "invalid" and shown["sums"]["missing"] > 0
        broker.kill("n1")
        time.sleep(away_s)
        assert first.poll() is None, output.read_text()
        broker.start("n1")
        load.send(MORE)
        read = lambda: sum(window["in"] for window in windows(checkpoint).values()) > PAST.stop  # noqa: E731
        assert eventually(read, 200), output.read_text()
    finally:
        first.kill()  # at any point of its work
        first.wait(60)
    load.send(LAST)
    again = [*argv, "--until-idle", "2s"]
    done = subprocess.run(again, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "resuming from batch" in done.stderr
    found = windows(checkpoint)
    assert {start: row["missing"] for start, row in found.items() if row["missing"]} == +load.missing
    assert {start: row["duplicate"] for start, row in found.items() if row["duplicate"]} == +load.copies
    assert sum(row["in"] for row in found.values()) == LAST.stop
    assert set(found) == set(load.missing)  # no window is skipped, and none is invented
    missing, copies = load.missing.total(), load.copies.total()
    assert f"invalid: {missing} missing; {copies} duplicate" in done.stdout
    assert not any(row["unmatched"] for row in found.values())

    read_to = end(bootstrap, load.input)
    load.send(TOO_LATE)
    gone = end(bootstrap, load.input)
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([TopicPartition(load.input, 0, gone)])
    assert eventually(lambda: end(bootstrap, load.input, first=True) == gone, 30)
    done = subprocess.run(again, capture_output=True, text=True, timeout=400, check=False)
    assert f"{gone - read_to:,} offsets were deleted before they were read" in done.stdout, done.stdout


def end(bootstrap: str, topic: str, first: bool = False) -> int:
    """The log end offset of partition 0, or its start offset."""
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        marks: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        return marks[0 if first else 1]
    finally:
        consumer.close()


def test_what_it_cannot_do_is_one_message(broker: LoopbackCluster, tmp_path: Path) -> None:
    def refused(*options: str) -> str:
        done = harness("qos", "--bootstrap", broker.bootstrap, *options, timeout_s=120)
        assert done.returncode == 254 and "Traceback" not in done.stderr, done.stderr
        return done.stderr.strip().splitlines()[-1]

    message = refused("--input", "nothing-there", "--output", "nor-this", "--checkpoint", str(tmp_path / "c"))
    assert "has no topic nothing-there, nor-this" in message
    message = refused("--input", "other", "--output", "nor-this", "--checkpoint", str(tmp_path / "c"))
    assert "of another comparison: input was" in message
    assert "different topics" in refused("--input", "a", "--output", "a")
    assert "--window 0" in refused("--input", "a", "--output", "b", "--window", "0")
    assert "no such folder" in refused("--input", "a", "--output", str(tmp_path / "none"))
