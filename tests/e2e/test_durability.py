"""What is lost and what is not: isolated leaders, cut power, and faults of every kind.

A run that ends invalid is a finding, or a defect of ours: its folder is kept by pytest, and the message names
what was found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.local import disks
from tests.conftest import absent
from tests.e2e.harness_command import Ran, run

pytestmark = [pytest.mark.cluster, pytest.mark.long]

FAULTS = "kill:leader,pause:leader,isolate:leader,kill:client,pause:client"


@pytest.mark.repeat(1, 4, 50)
@pytest.mark.timeout(240)
def test_faults_of_every_kind_take_nothing_that_was_acknowledged(tmp_path: Path, repetition: int) -> None:
    txn = ("--txn", "--sub-via", "assign,subscribe") if repetition % 2 else ()
    ran = run(
        tmp_path, "--nemesis", FAULTS, "--nemesis-interval", "6", "--nemesis-first", "2", "--acks", "all",
        "--idempotence", *txn, "--crash-clients", "--time-limit", "30", "--seed", str(repetition),
    )  # fmt: skip
    assert ran.result["valid"] is not False, ran.out
    assert not ran.anomalies, ran.out
    assert ran.result["statistics"]["acknowledged"] > 500, ran.out


@pytest.mark.repeat(0, 2, 10)
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


@pytest.mark.repeat(0, 2, 10)
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


@pytest.mark.repeat(1, 2, 5)
@pytest.mark.timeout(400)
def test_a_power_cut_of_all_nodes_loses_what_was_only_in_memory(tmp_path: Path, repetition: int) -> None:
    ran = _without_power(tmp_path, repetition)
    assert ran.code == 1, ran.out + ran.err
    assert "lost-write" in ran.anomalies


@pytest.mark.repeat(0, 2, 5)
@pytest.mark.timeout(400)
def test_a_power_cut_loses_nothing_that_was_flushed(tmp_path: Path, repetition: int) -> None:
    ran = _without_power(tmp_path, repetition, "--broker-config", "log.flush.interval.messages=1")
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.repeat(0, 1, 5)
@pytest.mark.timeout(400)
def test_nothing_is_promised_after_unclean_elections(tmp_path: Path, repetition: int) -> None:
    ran = run(
        tmp_path, "--nemesis", "elect-unclean", "--nemesis-first", "3", "--min-insync-replicas", "1",
        "--time-limit", "30", "--rate", "100", "--sub-via", "assign,subscribe", "--seed", str(repetition),
    )  # fmt: skip
    assert "lost-write" in ran.anomalies, ran.out + ran.err
    assert {found["promised"] for found in ran.result["anomalies"]} == {False}, ran.out


@pytest.mark.repeat(0, 1, 5)
@pytest.mark.timeout(240)
def test_one_replica_keeps_what_was_acknowledged_when_its_server_is_killed(tmp_path: Path, repetition: int) -> None:
    ran = run(
        tmp_path, "--nemesis", "kill:leader", "--nemesis-first", "2", "--nemesis-interval", "6", "--replication", "1",
        "--min-insync-replicas", "1", "--time-limit", "20", "--rate", "100", "--seed", str(repetition),
    )  # fmt: skip
    assert ran.result["valid"] is not False and not ran.anomalies, ran.out
