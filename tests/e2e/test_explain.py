"""What a run with anomalies leaves for people: explanations, the ops around a place, order pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness_command import harness, run
from tests.e2e.shrunk_run import shown_by_few

pytestmark = pytest.mark.cluster


def test_what_the_mock_cluster_does_wrong_is_explained(tmp_path: Path) -> None:
    ran = run(tmp_path, "--cluster", "mock", "--txn", "--time-limit", "6", "--seed", "3")
    assert "G1a" in ran.anomalies
    index = ran.folder / "orders" / "index.html"
    assert str(index) in ran.out and index.is_file()
    page = ran.folder / "report.html"
    assert f"open: {page}" in ran.out and page.is_file()

    every = harness("explain", str(ran.folder))
    assert every.returncode == 0, every.stderr
    assert all(f"\n{name}: " in every.stdout for name in ran.anomalies)

    one = harness("explain", str(ran.folder), "G1a#2", "--json")
    assert one.returncode == 0, one.stderr
    told = json.loads(one.stdout)
    witness = told["witness"]
    assert {op["index"] for op in told["ops"]} == {witness["writer"], witness["reader"]}
    assert all(op["value"] and op["f"] in ("send", "poll", "txn") for op in told["ops"])

    key, value = str(witness["key"]), str(witness["value"])
    near = harness("around", str(ran.folder), "--key", key, "--value", value, "-n", "0", "--json")
    assert near.returncode == 0, near.stderr
    assert {json.loads(line)["index"] for line in near.stdout.splitlines()} >= {
        witness["writer"],
        witness["reader"],
    }

    wrong = harness("explain", str(ran.folder), "no-such-anomaly")
    assert wrong.returncode == 254 and "G1a" in wrong.stderr and "Traceback" not in wrong.stderr


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_brokers_tell_why_a_record_was_lost(tmp_path: Path) -> None:
    ran = run(tmp_path, "--nemesis", "leader-isolate", "--acks", "1", "--time-limit", "60", "--seed", "1")
    assert "lost-write" in ran.anomalies, ran.out + ran.err
    one = harness("explain", str(ran.folder), "lost-write", "--json")
    assert one.returncode == 0, one.stderr
    told = json.loads(one.stdout)
    assert any(fault["fault"] == "isolate:leader" for fault in told["faults"])
    key = told["witness"]["key"]
    partition = f"{ran.folder.name}-{key // 4}-{key % 4}"
    assert any(partition in line["text"] and "runcating" in line["text"] for line in told["logs"]), told["logs"]
    assert all(0 <= line["time_ns"] <= 120e9 for line in told["logs"])
    assert (ran.folder / "orders" / f"key-{key}.html").is_file()
    shown_by_few(ran.folder, "lost-write", 6)
