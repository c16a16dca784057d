"""The first runs of the README: killed leaders lose nothing; the mock cluster does not isolate transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness_command import footprint, left_behind, run

pytestmark = pytest.mark.cluster


def test_killing_leaders_with_acks_all_is_valid(tmp_path: Path) -> None:
    before = footprint()
    options = ("--nemesis", "leader-kill", "--acks", "all", "--time-limit", "20", "--seed", "7")
    ran = run(tmp_path, *options, spark_master="local[*]")
    kills = [op["value"] for op in ran.nemesis if op["f"] == "kill" and op["extra"]["phase"] == "complete"]
    assert any(kill["took_effect"] and kill["new_leaders"] for kill in kills), kills
    assert ran.code in (0, 1), ran.out + ran.err
    assert ran.anomalies <= {"duplicate", "int-nonmonotonic-send", "nonmonotonic-send", "nonmonotonic-poll",
                             "int-nonmonotonic-poll", "poll-skip", "int-poll-skip"}  # fmt: skip
    assert (ran.code == 0) == (not ran.anomalies)
    for path in (
        "plan.yaml",
        "results.json",
        "tables",
        "logs/n1/server.log",
        "plots/rate.png",
        "harness.log",
    ):
        assert (ran.folder / path).exists(), path
    assert str(ran.folder) in ran.out
    assert left_behind(before) == {}
    plan = (ran.folder / "plan.yaml").read_text()
    assert "seed: 7" in plan


def test_the_mock_cluster_does_not_isolate_transactions(tmp_path: Path) -> None:
    before = footprint()
    ran = run(tmp_path, "--cluster", "mock", "--txn", "--time-limit", "10", spark_master="local[*]")
    assert ran.code == 1, ran.out + ran.err
    assert ran.anomalies & {"G1a", "precommitted-read"}
    assert left_behind(before) == {}
