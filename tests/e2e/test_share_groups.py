"""Share groups on real brokers: members of two libraries in one group, faults, and a bug of Kafka 4.3.1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness_command import run
from workloads.topic_recreation import PARTITIONS_MAX

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
BOTH = ("--workload", "share", "--client", "confluent,java")
# A group need not deliver a record again after as many deliveries as its limit. The checker assumes that a delivery may
# be missing in the history whenever a member ends, and once per lock duration of each fault. With these settings, that
# makes fewer than the limit, so a record that nobody got is certainly lost.
LATEST = (
    *("--auto-offset-reset", "latest", "--nemesis", "add-partitions:all", "--nemesis-interval", "8"),
    *("--share-topics", "2", "--share-delivery-limit", "10", "--share-lock", "6"),
    *("--share-crash-p", "0", "--share-hold-p", "0"),
    *("--time-limit", "20", "--seed", "1"),
)


@pytest.mark.long
def test_a_group_with_members_of_two_libraries(tmp_path: Path) -> None:
    ran = run(tmp_path, *BOTH, "--share-delivery-limit", "10", "--time-limit", "8", "--seed", "1")
    assert (ran.code, ran.anomalies) == (0, set()), ran.out
    assert ran.result["statistics"]["share"]["deliveries"] > 20


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_faults_on_clients_and_leaders(version: str, tmp_path: Path) -> None:
    faults = ("--nemesis", "kill:client,leader-kill", "--time-limit", "20", "--seed", "2")
    # Before 4.4, writes of the start offset may overtake each other (apache/kafka #23074).
    allowed = {"start-offset-regression", "redelivered-after-accept"} if version == "4.3.1" else set()
    assert run(tmp_path, *BOTH, "--kafka-version", version, *faults).anomalies <= allowed


@pytest.mark.nightly
def test_the_share_coordinator_is_killed(tmp_path: Path) -> None:
    faults = ("--nemesis", "kill:share-coordinator", "--time-limit", "20", "--seed", "3")
    ran = run(tmp_path, "--workload", "share", "--kafka-version", "4.3.1", *faults)
    assert ran.anomalies == set()
    assert any(op["f"] == "kill" and op["value"] and op["value"].get("took_effect") for op in ran.nemesis)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_new_partitions_are_skipped_before_4_4(version: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "--workload", "share", "--kafka-version", version, *LATEST)
    assert ("share-lost" in ran.anomalies) == (version == "4.3.1")


@pytest.mark.nightly
def test_dead_letter_queues(tmp_path: Path) -> None:
    letters = ("--share-dead-letters", "--share-reject-p", "0.1", "--share-delivery-limit", "2")
    ran = run(tmp_path, *BOTH, *letters, "--kafka-version", "4.4.0", "--time-limit", "10", "--seed", "1")
    assert ran.anomalies == set(), ran.out
    share = ran.result["statistics"]["share"]
    assert share["dead_letters"] >= share["acknowledgements"]["reject"]["ok"] > 0


@pytest.mark.nightly
def test_topics_are_deleted_and_created_again(tmp_path: Path) -> None:
    ran = run(tmp_path, *BOTH, "--share-recreate", "--time-limit", "20", "--seed", "2")
    assert (ran.code, ran.anomalies) == (0, set()), ran.out
    lines = (
        line for file in sorted((ran.folder / "history").glob("*.jsonl")) for line in file.read_text().splitlines()
    )
    ops = [op for op in map(json.loads, lines) if op.get("type") == "ok"]
    (again,) = (op for op in ops if op["f"] == "share-recreate")
    assert all(end > 0 for _, end in again["value"])
    polled = [(op, row[0]) for op in ops if op["f"] == "share-poll" for row in op["value"]["records"]]
    deleted = [key < PARTITIONS_MAX for op, key in polled if op["time_ns"] > again["time_ns"]]
    assert any(key < PARTITIONS_MAX for _, key in polled) and deleted and not all(deleted)
