"""Voters that leave and join the metadata quorum: which, how the effect is observed, and that it is undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.generator import op
from harness.model.errors_and_exit_codes import ClusterTrouble
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.shared import effects
from nemesis.verbs import voters
from tests.unit.nemesis.test_faults import FakeCluster, env_of

ALL = ("c1", "c2", "c3", "c4")


@dataclass
class FakeQuorum(FakeCluster):
    """Satisfies Voters and MetadataServers in addition. Requests take effect at once, if they are not refused."""

    metadata_servers: tuple[str, ...] = ALL
    vote: list[str] = field(default_factory=lambda: ["c1", "c2", "c3"])
    refusals: int = 0

    def silent(self) -> list[str]:
        return []

    def voters(self) -> list[str]:
        return sorted(self.vote)

    def add_voter(self, node: str) -> None:
        self._refuse()
        self.vote.append(node)

    def remove_voter(self, node: str) -> None:
        self._refuse()
        self.vote.remove(node)

    def _refuse(self) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise ClusterTrouble("REQUEST_TIMED_OUT")


def tried(cluster: FakeQuorum, name: str, begin: str, end: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values of both ops of a fault."""
    (fault,) = table.faults([name], Timing())
    env = env_of(cluster)
    started = fault.nemesis.invoke(env, op(begin)).value
    ended = fault.nemesis.invoke(env, op(end)).value
    return started, ended


def test_a_voter_leaves_and_returns() -> None:
    cluster = FakeQuorum(refusals=2)
    started, ended = tried(cluster, "remove-controller:one", "remove-controller", "add-controller")
    assert started["took_effect"] and len(started["voters"]) == 2
    assert started["nodes"][0] not in started["voters"]
    assert cluster.voters() == ["c1", "c2", "c3"] and "not_back" not in ended


def test_the_active_controller_can_leave() -> None:
    assert voters.leaving("active", ["c1", "c2"], ["c2"], env_of(FakeQuorum())) == "c2"
    assert voters.leaving("active", ["c1", "c2"], [], env_of(FakeQuorum())) is None
    assert voters.leaving("one", ["c1"], [], env_of(FakeQuorum())) is None


def test_a_spare_joins_and_leaves() -> None:
    cluster = FakeQuorum()
    started, _ = tried(cluster, "add-controller:spare", "add-controller", "remove-controller")
    assert started["nodes"] == ["c4"] and started["voters"] == list(ALL)
    assert cluster.voters() == ["c1", "c2", "c3"]


def test_without_a_spare_nothing_happens() -> None:
    cluster = FakeQuorum(metadata_servers=ALL[:3])
    started, ended = tried(cluster, "add-controller:spare", "add-controller", "remove-controller")
    assert not started["took_effect"] and "there is no spare controller" in started["why"]
    assert ended == {"nodes": []} and cluster.voters() == ["c1", "c2", "c3"]


def test_what_the_leader_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "EFFECT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(voters, "BACK_S", 0.1)
    cluster = FakeQuorum(refusals=1000)
    started, ended = tried(cluster, "remove-controller:one", "remove-controller", "add-controller")
    assert (started["took_effect"], started["why"]) == (False, "REQUEST_TIMED_OUT")
    assert "not_back" not in ended  # it never left
