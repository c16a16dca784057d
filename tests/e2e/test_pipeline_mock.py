"""The pipeline's clients on librdkafka's mock cluster, without transactions, which it does not implement."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.clients.table import admin_opener, opener
from harness.cluster.mock import MockCluster
from harness.model import op_json
from harness.model.op import Op
from harness.pipeline_app.ports import Failed
from harness.plan.make_plan import make
from harness.plan.resolve import workload_of
from harness.run.start_workers import client_config

# The mock cluster may never answer a join after members have timed out; this limits the wait.
JOIN_MS = "20000"
TURNS = 400  # of a few tenths of a second each; far more than needed
_INDEX = itertools.count()
PROGRAM = f"exec:{sys.executable} {Path(__file__).with_name('line_client.py')}"


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    cluster = MockCluster(nodes=1, work_dir=tmp_path / "mock")
    cluster.up(lambda line: None)
    try:
        yield cluster.bootstrap
    finally:
        cluster.down()


class Slot:
    """A client; after `info`, which an overloaded machine may cause, a new process of the slot."""

    def __init__(self, config: Mapping[str, Any], process: int) -> None:
        self._config, self._process, self._library = config, process, str(config["library"])
        self._client = self._open()

    def _open(self) -> Any:
        return opener(self._library, "pipeline")({**self._config, "process": self._process})

    def invoke(self, op: Op) -> Op:
        done: Op = self._client.invoke(op)
        if done.type == "info":
            with suppress(Failed):  # the error occurs again where it is checked
                self._client.close()
            self._process += self._config["concurrency"]
            self._client = self._open()
        return done

    def close(self) -> None:
        self._client.close()


def completed(client: Slot, f: str, value: Any = None, **extra: Any) -> Op:
    done: Op = client.invoke(Op(next(_INDEX), 0, 0, "invoke", f, value, None, extra))
    return done


@pytest.mark.parametrize(
    ("library", "transform"), [("confluent", "aggregate"), (PROGRAM, "identity")], ids=["confluent", "program"]
)
def test_records_are_worked_off_and_read(bootstrap: str, tmp_path: Path, library: str, transform: str) -> None:
    for name in ("history", "events", "pipeline"):
        (tmp_path / name).mkdir()
    (tmp_path / "history" / "00000.jsonl").write_bytes(op_json.header("r", 0, 0, 0))
    plan = make(
        {"workload": "pipeline", "cluster": "mock", "partitions": 4, "writers": 1, "instances": 2,
         "pipeline_mode": "at-least-once", "transform": transform, "op_timeout_s": 60}
    ).model_copy(update={"run": "r"})  # fmt: skip
    made = workload_of(plan)
    config = client_config(plan, bootstrap) | {
        "library": library,
        "client_user": "root",
        "folder": str(tmp_path),
        "logic_options": {**made.client_options, "work_s": 0.3},
        "consumer_config": {"check.crcs": "false", "max.poll.interval.ms": JOIN_MS, **made.consumer_config},
    }
    assert admin_opener("confluent")(config).create_topics(["r-0", "r-1"], 4, 1) == ["r-0", "r-1"]
    writer, *instances = (Slot(config, n) for n in range(3))

    ids = range(100)
    sent = completed(writer, "send", [["send", id % 24 % 4, id] for id in ids], keys=24)
    assert sent.type == "ok", sent.error
    assert [mop[2][1] for mop in sent.value] == list(ids)
    worked: list[Op] = []
    for _ in range(TURNS):
        worked += (completed(instance, "work") for instance in instances)
        lag = completed(writer, "lag")
        if lag.type == "ok" and lag.value["left"] == 0:
            break
    else:
        worked = [op for op in worked if op.error or any(op.value.values())]
        raise AssertionError(f"the instances do not catch up: {lag}\n" + "\n".join(map(str, worked[-40:])))
    for instance in instances:
        completed(instance, "leave")
    for client in (writer, *instances):
        for _ in range(TURNS):
            read = completed(client, "read")
            if read.type == "ok" and read.value["done"]:
                break
    rows = [
        json.loads(line)
        for path in sorted((tmp_path / "pipeline").glob("read-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert sum(row.get("caught_up", False) for row in rows) == 3
    made_of = {(row["id"], row["n"]) for row in rows if row.get("side") == "output"}
    assert made_of == {(id, id // 24 + 1 if transform == "aggregate" else 0) for id in ids}
    assert {row["id"] for row in rows if row.get("side") == "input"} == set(ids)
    committed = json.loads((tmp_path / "pipeline" / "committed.json").read_text())
    assert sum(committed["offsets"].values()) == 100
    paths = sorted((tmp_path / "events").glob("instance-*.jsonl"))
    events = [line for path in paths for line in path.read_text().splitlines()]
    assert json.loads(events[0])["event"] == "started"
    assert {"assigned", "position", "polled"} <= {json.loads(line)["event"] for line in events}
    for client in (writer, *instances):
        client.close()
