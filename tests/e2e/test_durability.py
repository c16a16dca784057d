"""Which records are lost and which are not, under isolated leaders, power loss, and every other fault.

A run that ends invalid is a finding, or a bug of the harness: pytest keeps its folder, and the message names the
anomalies.
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


# Undoing the change of the policy takes 3 to 8 s, and must be over when the first leader is isolated.
COMPACTED_THEN_ISOLATED = """
- {fault: config-change:compact, at: 1s, for: 1s}
- {fault: isolate:leader, at: 10s, for: 7s}
- {fault: isolate:leader, at: 19s, for: 7s}
"""


@pytest.mark.repeat(0, 1, 5)
@pytest.mark.timeout(400)
def test_a_compacting_policy_excuses_no_lost_record(tmp_path: Path, repetition: int) -> None:
    """Nothing was compacted, as every log is a single active segment, so what isolated leaders acknowledged is lost."""
    (tmp_path / "schedule.yaml").write_text(COMPACTED_THEN_ISOLATED)
    schedule = ("--schedule", str(tmp_path / "schedule.yaml"))
    ran = run(tmp_path, *schedule, "--acks", "1", "--time-limit", "28", "--seed", str(repetition))
    assert ran.code == 1, ran.out + ran.err
    # When the fault ends, and once more when the run ends.
    looks = [op["value"]["cleaned"] for op in ran.nemesis if "cleaned" in (op["value"] or {})]
    assert len(looks) == 2 and all(look and all(offset == 0 for _, offset in look) for look in looks)
    assert "lost-write" in ran.anomalies and ran.result["promised"] is False
    assert ran.result["statistics"]["lost"] > 50, ran.out


@pytest.mark.repeat(0, 1, 5)
@pytest.mark.timeout(400)
def test_what_the_cleaner_took_is_not_lost(tmp_path: Path, repetition: int) -> None:
    """Compaction removes records without a key, whether or not later records have the same key."""
    brokers = ("log.roll.ms=1000", "log.cleaner.backoff.ms=200", "log.cleaner.min.cleanable.ratio=0.01")
    more = [part for setting in brokers for part in ("--broker-config", setting)]
    ran = run(tmp_path, "--nemesis", "config-change:compact", *more, "--time-limit", "20", "--seed", str(repetition))
    assert ran.code == 0, ran.out + ran.err
    assert any(offset for op in ran.nemesis for _, offset in (op["value"] or {}).get("cleaned", ())), ran.out


@pytest.mark.repeat(0, 1, 5)
@pytest.mark.timeout(400)
def test_a_consumer_that_resets_to_the_end_skips_nothing(tmp_path: Path, repetition: int) -> None:
    options = ("--nemesis", "delete-records", "--auto-offset-reset", "latest", "--time-limit", "20")
    ran = run(tmp_path, *options, "--seed", str(repetition))
    assert ran.code != 1 and not ran.anomalies, ran.out + ran.err


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
