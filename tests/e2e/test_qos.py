"""`harness qos` on a real broker: known holes and copies, killed and started again, and what it refuses."""

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
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import named
from tests.e2e.running import HARNESS, harness
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]
PAST, MORE, LAST = range(10_000), range(10_000, 15_000), range(15_000, 20_000)
SPAN_MS = 100_000
WINDOW_MS = 10_000
COMPARE = ("--window", "10s", "--padding", "10s", "--every", "500ms")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    name = f"test-{secrets.token_hex(3)}"
    done = harness("cluster", "up", name, "--nodes", "1", "--network", "loopback", "--outside", timeout_s=180)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        (told,) = json.loads(harness("cluster", "status", name, "--json").stdout)
        yield told["outside_bootstrap"]
    finally:
        if named.folder(name).exists():
            harness("cluster", "down", name, "--force", timeout_s=180)


class Load:
    """Inputs with ids 0, 1, ..., the first of a time that is past, and outputs with holes and copies."""

    def __init__(self, bootstrap: str) -> None:
        self.input, self.output = (f"{side}-{secrets.token_hex(3)}" for side in ("in", "out"))
        admin: Any = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(self.input, 4, 1), NewTopic(self.output, 3, 1)]).values():
            future.result(timeout=60)
        self._plain: Any = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._txn: Any = Producer({"bootstrap.servers": bootstrap, "transactional.id": self.output})
        self._txn.init_transactions(60)
        self._began_ms = _now_ms() - SPAN_MS
        self._at: dict[int, int] = {}
        self.missing, self.copies = Counter[int](), Counter[int]()

    def at(self, id: int) -> int:
        past = self._began_ms + id * SPAN_MS // len(PAST) if id in PAST else _now_ms()
        return self._at.setdefault(id, past)

    def send(self, ids: range) -> None:
        """Also outputs that are aborted: nobody may count them."""
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


def lines(checkpoint: Path) -> dict[int, dict[str, Any]]:
    """The last whole line of each window."""
    path = checkpoint / "windows.jsonl"
    whole = path.read_text().splitlines(keepends=True) if path.exists() else []
    return {told["start_ms"]: told for told in map(json.loads, (one for one in whole if one.endswith("\n")))}


def test_holes_and_copies_are_found_and_a_kill_changes_nothing(bootstrap: str, tmp_path: Path) -> None:
    load, checkpoint = Load(bootstrap), tmp_path / "checkpoint"
    load.send(PAST)
    argv = [*HARNESS, *load.options(bootstrap, checkpoint)]
    with (tmp_path / "said").open("w") as said:
        first = subprocess.Popen(argv, stdout=said, stderr=subprocess.STDOUT)
    try:
        # The alarm is raised while it goes on, and its page shows it.
        said_at = tmp_path / "said"
        alarm = lambda: len(lines(checkpoint)) > 5 and "ALARM" in said_at.read_text()  # noqa: E731
        assert eventually(alarm, 400), said_at.read_text()
        told = said_at.read_text()
        page = told.split("http://")[1].split("/")[0]
        with urllib.request.urlopen(f"http://{page}/windows.json", timeout=30) as answer:
            shown = json.load(answer)
        assert shown["verdict"] == "invalid" and shown["sums"]["missing"] > 0
        load.send(MORE)
    finally:
        first.kill()  # in whatever it is at
        first.wait(60)
    load.send(LAST)
    done = subprocess.run(
        [*argv, "--until-idle", "2s"], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "going on from batch" in done.stderr
    held = lines(checkpoint)
    assert {start: told["missing"] for start, told in held.items() if told["missing"]} == +load.missing
    assert {start: told["duplicate"] for start, told in held.items() if told["duplicate"]} == +load.copies
    assert sum(told["in"] for told in held.values()) == LAST.stop
    assert set(held) == set(load.missing)  # no window is passed over, and none is made up
    missing, copies = load.missing.total(), load.copies.total()
    assert f"invalid: {missing} missing; {copies} duplicate" in done.stdout
    assert not any(told["unmatched"] for told in held.values())


def test_what_it_cannot_do_is_one_message(bootstrap: str, tmp_path: Path) -> None:
    def refused(*options: str) -> str:
        done = harness("qos", "--bootstrap", bootstrap, *options, timeout_s=120)
        assert done.returncode == 254 and "Traceback" not in done.stderr, done.stderr
        return done.stderr.strip().splitlines()[-1]

    said = refused("--input", "nothing-there", "--output", "nor-this", "--checkpoint", str(tmp_path / "c"))
    assert "has no topic nothing-there, nor-this" in said
    said = refused("--input", "other", "--output", "nor-this", "--checkpoint", str(tmp_path / "c"))
    assert "of another query: input was" in said
    assert "different topics" in refused("--input", "a", "--output", "a")
    assert "--window 0" in refused("--input", "a", "--output", "b", "--window", "0")
    assert "no such folder" in refused("--input", "a", "--output", str(tmp_path / "none"))
