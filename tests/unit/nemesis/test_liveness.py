"""What stays stuck after healing: what every look finds in the same state, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.plan import derived
from harness.plan.make_plan import make
from nemesis.shared import liveness
from nemesis.shared.liveness import settle, within_s
from tests.unit.nemesis.test_faults import FakeCluster, env_of


class Logged(FakeCluster):
    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        return (b"" if offset is None else f"an old line\n[x] {node} about r-0-0\nr-0-00\nr-0-0-new\n".encode()), 100


@dataclass
class Brokers:
    """Partition 0 of r-0; `change` is called before each look."""

    leader: int | None = 1
    isr: tuple[int, ...] = (1, 2, 3)
    stable: int = 10
    brokers: int = 3
    change: Callable[[Brokers], None] = lambda brokers: None
    looks: int = field(default=0)

    def __call__(self, name: str, within_s: float, **arguments: Any) -> Any:
        if name == "brokers":
            self.looks += 1
            self.change(self)
            return [[number, "x:1"] for number in range(1, self.brokers + 1)]
        if name == "partitions":
            return [{"topic": "r-0", "partition": 0, "leader": self.leader, "replicas": [1, 2, 3], "isr": self.isr}]
        if name == "places":
            return [[0, "r-0", 0]]
        end = 10 if arguments["isolation_level"] == "read_uncommitted" else self.stable
        return [[key, 0, end] for key in arguments["keys"]]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(liveness.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(liveness.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def _settle(brokers: Brokers) -> dict[str, Any]:
    return settle(replace(env_of(Logged()), admin=brokers))


def test_a_cluster_that_has_settled_costs_one_look() -> None:
    brokers = Brokers()
    assert _settle(brokers) == {"settled_s": 0.0} and brokers.looks == 1


@pytest.mark.parametrize(
    ("brokers", "kind", "state"),
    [
        (Brokers(leader=None), "partition", "it has no leader"),
        (Brokers(isr=(1, 3)), "replica", "not in sync: n2; its leader is n1"),
        (Brokers(stable=7), "transaction", "its last stable offset stays at 7, below the high watermark 10"),
    ],
)
def test_what_stays_as_it_is_is_stuck(brokers: Brokers, kind: str, state: str) -> None:
    seen = _settle(brokers)
    logged = {node: [f"[x] {node} about r-0-0"] for node in ("n1", "n2", "n3")}
    assert seen["stuck"] == [{"kind": kind, "where": "r-0-0", "state": state, "logged": logged}]
    assert seen["waited_s"] >= 30 and "why" not in seen


def test_what_changes_is_not_stuck() -> None:
    def advance(brokers: Brokers) -> None:
        brokers.stable = 5 + brokers.looks // 20

    assert _settle(Brokers(change=advance))["stuck"] == []


def test_what_ends_in_time_has_settled() -> None:
    def end(brokers: Brokers) -> None:
        brokers.stable = 10 if brokers.looks > 20 else 7

    assert _settle(Brokers(change=end)) == {"settled_s": 10.0}


def test_a_broker_that_is_missing_is_no_proof() -> None:
    seen = _settle(Brokers(brokers=2, leader=None))
    assert seen["stuck"] == [] and seen["why"] == "2 of 3 brokers are registered"


def test_a_look_that_failed_begins_the_wait_again() -> None:
    def fail(brokers: Brokers) -> None:
        if brokers.looks == 30:
            raise ClusterTrouble("nobody answered")

    assert _settle(Brokers(leader=None, change=fail))["stuck"] == []


def test_transactions_with_a_longer_timeout_get_more_time() -> None:
    assert within_s(10.0) == 30.0 and within_s(60.0) == 80.0
    assert derived.transaction_timeout_s(make({})) == 10.0
    longer = make({"producer_config": {"transaction.timeout.ms": "60000"}})
    assert derived.transaction_timeout_s(longer) == 60.0
