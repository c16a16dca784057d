"""The log model against real brokers, and against librdkafka's mock cluster, whose transactions are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.sim.log_model.actions_as_text import parse
from tests.e2e.harness_command import harness, run

ABORTED = "records of aborted transactions are read under read_committed"


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout(1000)
def test_brokers_do_what_the_model_says(tmp_path: Path) -> None:
    """Retention, DeleteRecords, transactions, retries, compaction, elections and restarts of 4.1.1."""
    done = run(tmp_path, "--workload", "log-model", "--steps", "120", "--seed", "1", timeout_s=900)
    assert done.code == 0, (done.out, done.err)
    assert done.result["statistics"]["steps"] == 120
    faults = [op for op in done.nemesis if op["extra"]["phase"] == "complete"]
    assert {op["f"] for op in faults} == {"restart", "elect"}
    assert all(op["value"]["took_effect"] for op in faults), faults
    succeeded = {f for f, kinds in done.result["statistics"]["by_f"].items() if kinds.get("ok")}
    expected = ("append", "retry", "read", "read-all", "list", "commit", "abort", "delete-records", "set")
    assert succeeded >= {f"log-{f}" for f in expected}


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_brokers_with_a_remote_tier_do_what_the_model_says(tmp_path: Path) -> None:
    """Segments are copied to remote storage, leave the local log, are read from it, and are deleted there."""
    weights = "restart=0,elect=0,append=60,read-all=15"
    done = run(
        tmp_path, "--workload", "log-model", "--tiered", "--steps", "60", "--seed", "1", "--weights", weights,
        timeout_s=500,
    )  # fmt: skip
    assert done.code == 0, (done.out, done.err)
    assert done.result["statistics"]["copied"] >= 2
    assert "segments copied to the remote tier" in done.out


@pytest.mark.long
@pytest.mark.timeout(800)
def test_the_mock_cluster_is_wrong_about_transactions_and_short_programs_show_it(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "--workload",
        "log-model",
        "--cluster",
        "mock",
        "--steps",
        "60",
        "--seed",
        "1",
        timeout_s=700,
    )
    assert done.code == 1 and done.anomalies == {"log-divergence"}, (done.out, done.err)
    witnesses = {one["over"]: one for one in done.result["anomalies"][0]["witnesses"]}
    file = done.folder / witnesses[ABORTED]["program"]
    _, actions = parse(file.read_text(), str(file))
    assert [action.f for action in actions] == ["append", "abort", "read-all"]
    again = harness("model", "replay", str(file), "--cluster", "mock")
    assert again.returncode == 1 and ABORTED in again.stdout, (again.stdout, again.stderr)
    stored = harness("check", str(done.folder), "--json")
    assert stored.returncode == 1 and re.search(r'"log-divergence"', stored.stdout)


@pytest.mark.long
def test_what_the_log_model_cannot_do_is_refused(tmp_path: Path) -> None:
    for arguments, message in (
        (("--cluster", "sim"), "harness model run"),
        (("--nemesis", "kill:leader"), "--nemesis"),
        (("--weights", "tick=3"), "--weights"),
        (("--tiered", "--kafka-version", "3.4"), "3.6 or later"),
        (("--tiered", "--cluster", "mock"), "--cluster local"),
    ):
        done = harness("run", "--workload", "log-model", "--runs", str(tmp_path), *arguments)
        assert done.returncode == 254 and message in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
