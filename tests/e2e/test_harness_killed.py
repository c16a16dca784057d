"""The main job for real: brokers, faults, histories, verdicts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.local import disks
from harness.run import test
from tests.conftest import absent
from tests.e2e.harness_command import HARNESS, Ran, footprint, harness, left_behind, ops, run
from tests.e2e.waiting import wait_for_load, wait_until_gone

pytestmark = pytest.mark.cluster


def test_killing_leaders_with_acks_all_is_valid(tmp_path: Path) -> None:
    before = footprint()
    ran = run(tmp_path, "--nemesis", "leader-kill", "--acks", "all", "--time-limit", "20", "--seed", "7")
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


@pytest.mark.repeat(1, 10)
@pytest.mark.long
@pytest.mark.timeout(400)
def test_isolated_leaders_lose_acks_1_records(tmp_path: Path, repetition: int) -> None:
    ran = run(
        tmp_path,
        "--nemesis",
        "leader-isolate",
        "--acks",
        "1",
        "--time-limit",
        "60",
        "--seed",
        str(repetition),
    )
    assert ran.code == 1, ran.out + ran.err
    assert "lost-write" in ran.anomalies
    assert ran.result["promised"] is False


@pytest.mark.repeat(1, 10)
@pytest.mark.long
@pytest.mark.timeout(400)
def test_isolated_leaders_lose_nothing_of_idempotent_acks_all(tmp_path: Path, repetition: int) -> None:
    ran = run(
        tmp_path, "--nemesis", "leader-isolate", "--acks", "all", "--idempotence", "--time-limit", "60",
        "--seed", str(repetition),
    )  # fmt: skip
    assert ran.code != 1, ran.out + ran.err
    assert ran.anomalies == set()


def _without_power(runs: Path, seed: int, *more: str) -> Ran:
    if disks.why_not():
        absent(disks.why_not())
    options = ("--nemesis", "power-loss:all", "--acks", "all", "--time-limit", "25", "--seed", str(seed))
    ran = run(runs, *options, *more)
    cuts = [op["value"] for op in ran.nemesis if op["f"] == "power-loss" and "lost_bytes" in op["value"]]
    assert cuts and all(cut["took_effect"] for cut in cuts), ran.nemesis
    return ran


@pytest.mark.repeat(1, 5)
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_power_cut_of_all_nodes_loses_what_was_only_in_memory(tmp_path: Path, repetition: int) -> None:
    ran = _without_power(tmp_path, repetition)
    assert ran.code == 1, ran.out + ran.err
    assert "lost-write" in ran.anomalies


@pytest.mark.repeat(1, 5)
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_power_cut_loses_nothing_that_was_flushed(tmp_path: Path, repetition: int) -> None:
    ran = _without_power(tmp_path, repetition, "--broker-config", "log.flush.interval.messages=1")
    assert ran.code == 0, ran.out + ran.err


def test_the_mock_cluster_does_not_isolate_transactions(tmp_path: Path) -> None:
    before = footprint()
    ran = run(tmp_path, "--cluster", "mock", "--txn", "--time-limit", "10")
    assert ran.code == 1, ran.out + ran.err
    assert ran.anomalies & {"G1a", "precommitted-read"}
    assert left_behind(before) == {}


@pytest.mark.repeat(25, 100)
@pytest.mark.long
def test_a_killed_harness_leaves_nothing_but_its_history(tmp_path: Path, repetition: int, spark: Any) -> None:
    before = footprint()
    command = [
        *HARNESS,
        "run",
        "--runs",
        str(tmp_path),
        "--nemesis",
        "leader-isolate,client-crash",
        "--nemesis-first",
        "1",
        "--nemesis-interval",
        "3",
        "--time-limit",
        "60",
    ]
    with (tmp_path / "out").open("wb") as out:
        victim = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        folder = wait_for_load(tmp_path, ops_min=250)
        time.sleep(0.4 * repetition)  # no two at the same moment of the faults, which change every 3 s
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    wait_until_gone(before)
    dispatched = sum(1 for op in ops(folder) if op["type"] == "invoke")
    result = test.check_run(folder, test.options_of(folder), spark, print)
    assert result.valid in ("invalid", "unknown")
    assert result.statistics["ops"] == dispatched
    if repetition == 0:
        done = harness("check", str(folder))
        assert done.returncode in (1, 2), done.stdout + done.stderr
        again = harness("show", "--json", str(folder))
        assert again.returncode == 0
        assert json.loads(again.stdout)["statistics"]["ops"] == dispatched


def test_ctrl_c_heals_saves_and_checks(tmp_path: Path) -> None:
    before = footprint()
    command = [*HARNESS, "run", "--runs", str(tmp_path), "--nemesis", "leader-kill", "--time-limit", "60"]
    with (tmp_path / "out").open("wb") as out:
        asked = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    folder = wait_for_load(tmp_path, ops_min=2000)
    meanwhile = left_behind(before)
    assert len(meanwhile["processes"]) >= 4 and meanwhile["namespaces"]  # what is looked for is seen
    asked.send_signal(signal.SIGINT)
    assert asked.wait(timeout=90) == 130
    faults = [op["f"] for op in ops(folder) if op["process"] == "nemesis"]
    assert faults[-1] == "heal"
    assert (folder / "results.json").exists()
    assert "interrupted" in (tmp_path / "out").read_text()
    assert left_behind(before) == {}
