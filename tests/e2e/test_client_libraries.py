"""Client libraries other than the default, alone and combined, on real brokers that lose a leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness_command import Ran, harness, ops, run
from tests.e2e.persistent_cluster import persistent_cluster

SLOTS = 4
pytestmark = [pytest.mark.cluster, pytest.mark.long]

LOAD = ("--nemesis", "leader-kill", "--nemesis-first", "3", "--time-limit", "16", "--rate", "60",
        "--sub-p", "0.15", "--seed", "5")  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, str]]:
    """The options for brokers that all tests of this file share; each run leaves them healed."""
    with persistent_cluster() as name:
        yield "--cluster", f"local:{name}"


def done(ran: Ran) -> list[dict[str, Any]]:
    """Successful client ops, under load and afterwards."""
    return [op for op in ops(ran.folder) if op["process"] != "nemesis" and op["type"] == "ok"]


def valid_through_the_loss_of_a_leader(ran: Ran) -> None:
    assert ran.code == 0, ran.out + ran.err
    kills = [op["value"] for op in ran.nemesis if op["f"] == "kill" and op["extra"]["phase"] == "complete"]
    assert any(kill["took_effect"] and kill["new_leaders"] for kill in kills), kills


def rebalanced(found: list[dict[str, Any]]) -> set[str]:
    """The types of consumer group events that members recorded."""
    return {event["event"] for op in found for event in (op.get("extra") or {}).get("rebalance_log", ())}


def test_java_with_transactions_and_groups(cluster: tuple[str, str], tmp_path: Path) -> None:
    options = ("--client", "java", "--concurrency", "2", "--txn", "--sub-via", "subscribe")
    ran = run(tmp_path, *cluster, *options, *LOAD)
    valid_through_the_loss_of_a_leader(ran)
    found = done(ran)
    assert {op["f"] for op in found} >= {"poll", "txn", "subscribe"}
    assert "assigned" in rebalanced(found)
    assert "client java" in harness("show", str(ran.folder)).stdout


def test_aiokafka_with_transactions(cluster: tuple[str, str], tmp_path: Path) -> None:
    ran = run(tmp_path, *cluster, "--client", "aiokafka", "--concurrency", "4", "--txn", *LOAD)
    valid_through_the_loss_of_a_leader(ran)
    assert {op["f"] for op in done(ran)} >= {"send", "poll", "txn", "assign"}


def test_three_libraries_in_one_run_and_one_group(cluster: tuple[str, str], tmp_path: Path) -> None:
    libraries = ["confluent", "java", "aiokafka"]
    options = ("--client", ",".join(libraries), "--concurrency", str(SLOTS), "--sub-via", "subscribe")
    ran = run(tmp_path, *cluster, *options, *LOAD)
    valid_through_the_loss_of_a_leader(ran)
    found = done(ran)
    for number, name in enumerate(libraries):
        own = [op for op in found if op["process"] % SLOTS % len(libraries) == number]
        assert {op["f"] for op in own} >= {"send", "poll", "subscribe"}, f"{name} did nothing"
    assert "assigned" in rebalanced(found)
    shown = harness("show", str(ran.folder)).stdout
    assert "confluent in slots 0, 3; java in slots 1; aiokafka in slots 2" in " ".join(shown.split())


def test_a_group_with_members_of_both_protocols(tmp_path: Path) -> None:
    load = ("--client", "confluent,java", "--concurrency", "4", "--rate", "60", "--sub-p", "0.1", "--seed", "1")
    faults = ("--nemesis", "kill:client,kill:group-coordinator", "--nemesis-first", "4", "--nemesis-interval", "7")
    ran = run(tmp_path, "--group-protocol", "both", *load, *faults, "--time-limit", "24")
    assert ran.code == 0, ran.out + ran.err
    logs = "".join(path.read_text() for path in ran.folder.glob("logs/n*/server.log"))
    # Which protocol the first member uses differs from run to run, and with it whether the group is converted.
    converted = "Converted the classic group to a consumer group" in logs
    assert converted or "joins the consumer group using the classic protocol" in logs
    assert "joins the consumer group using the consumer protocol" in logs
    assert {"assigned", "revoked"} <= rebalanced(done(ran))


@pytest.mark.nightly
def test_static_members_that_subscribe_to_a_regular_expression(tmp_path: Path) -> None:
    load = ("--client", "confluent,java", "--concurrency", "4", "--rate", "60", "--sub-p", "0.05", "--seed", "1")
    faults = ("--nemesis", "kill:client", "--nemesis-first", "4", "--nemesis-interval", "6")
    how = ("--group-protocol", "consumer", "--sub-pattern", "--static-members")
    ran = run(tmp_path, *how, *load, *faults, "--time-limit", "20")
    assert ran.code == 0, ran.out + ran.err
    logs = "".join(path.read_text() for path in ran.folder.glob("logs/n*/server.log"))
    assert "regex" in logs and "slot-1" in logs
    assert {"assigned", "revoked"} <= rebalanced(done(ran))
