"""The verbs of an upgrade, on a cluster that only remembers its versions."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.capabilities import UpgradePath
from harness.model.fault_and_generator_protocols import Env
from nemesis import table
from nemesis.schedule.timing import Timing

OLD, NEW = "4.1.1", "4.3.1"
LEVELS = {OLD: {"metadata.version": 27}, NEW: {"metadata.version": 30, "share.version": 1}}


class Cluster:
    """Two brokers and a controller. `fails` are the (server, version) pairs with which a server ends at once."""

    nodes = ("n1", "n2")
    metadata_servers = ("c1",)
    bootstrap = ""

    def __init__(self, pins: bool = False, fails: frozenset[tuple[str, str]] = frozenset()) -> None:
        self.pins, self.fails = pins, fails
        self.versions = dict.fromkeys(("c1", "n1", "n2"), OLD)
        self.pinned: set[str] = set()
        self.down: set[str] = set()
        self.log: dict[str, list[bytes]] = {}
        self.levels = dict(LEVELS[OLD])
        self.refuses = ""

    def upgrade_path(self) -> UpgradePath:
        return UpgradePath(OLD, NEW, ("c1", "n1", "n2"), self.pins)

    def release(self, node: str) -> tuple[str, bool]:
        return self.versions[node], node in self.pinned

    def set_release(self, node: str, version: str, pinned: bool) -> None:
        assert node in self.down, "a running server cannot change its version"
        self.versions[node] = version
        (self.pinned.add if pinned else self.pinned.discard)(node)

    def starts_empty(self, node: str, version: str) -> str:
        return ""

    def new_levels(self, version: str) -> Mapping[str, int]:
        return LEVELS[version]

    def reported_features(self, node: str) -> tuple[int, Mapping[str, int]] | None:
        return 1, self.levels

    def stop(self, node: str, within_s: float = 60.0) -> None:
        self.down.add(node)

    kill = stop

    def start(self, node: str) -> None:
        lines = self.log.setdefault(node, [])
        lines.append(f"[now] INFO Kafka version: {self.versions[node]} (AppInfoParser)\n".encode())
        if (node, self.versions[node]) in self.fails:
            lines.append(b"[now] ERROR it cannot read its data\n")
        else:
            self.down.discard(node)

    def running(self, node: str) -> bool:
        return node not in self.down

    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def silent(self) -> list[str]:
        return []

    def controller(self) -> int | None:
        return 1

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        content = b"".join(self.log.get(node, []))
        return (b"", len(content)) if offset is None else (content[offset:], len(content))

    def admin(self, name: str, within_s: float, **arguments: Any) -> Any:
        if name == "features":
            return dict(self.levels)
        assert name == "set_features"
        if not self.refuses:
            self.levels = {**self.levels, **arguments["levels"]}
        return self.refuses


def done(cluster: Cluster, fault: str) -> dict[str, Any]:
    """Executes one step of a fault; returns its value."""
    (made,) = table.faults((fault,), Timing())
    roles = SimpleNamespace(unhealthy=lambda: f"{sorted(cluster.down)} are down" if cluster.down else "")
    env = Env(cast("Any", cluster), cast("Any", roles), cast("Any", None), cast("Any", None), cluster.admin)
    op = made.nemesis.invoke(env, made.rounds.start)
    return dict(op.value)


def test_controllers_come_first_and_the_last_server_completes_the_upgrade() -> None:
    cluster = Cluster()
    values = [done(cluster, "upgrade:next") for _ in range(4)]
    assert [value["nodes"] for value in values] == [["c1"], ["n1"], ["n2"], []]
    assert [value["complete"] for value in values] == [False, False, True, True]
    assert [value["half"] for value in values[:3]] == [False, True, True]
    assert all(value["took_effect"] for value in values[:3]) and not values[3]["took_effect"]
    assert values[0]["logged"] == NEW and values[0]["versions"] == {"c1": NEW, "n1": OLD, "n2": OLD}


def test_the_last_one_upgraded_is_rolled_back_first() -> None:
    cluster = Cluster()
    for _ in range(2):
        done(cluster, "upgrade:next")
    assert [done(cluster, "roll-back:last")["nodes"] for _ in range(3)] == [["n1"], ["c1"], []]
    assert set(cluster.versions.values()) == {OLD}


def upgraded(**options: Any) -> Cluster:
    cluster = Cluster(**options)
    for _ in range(3):
        done(cluster, "upgrade:next")
    return cluster


def test_features_are_raised_once_every_server_is_upgraded() -> None:
    cluster = Cluster()
    assert done(cluster, "finalize:features")["why"] == f"c1, n1, n2 still run {OLD}"
    cluster = upgraded()
    value = done(cluster, "finalize:features")
    assert value["asked"] == LEVELS[NEW] and value["levels_before"] == LEVELS[OLD]
    assert value["took_effect"] and value["complete"] and value["known_by_all"]
    assert done(cluster, "roll-back:last")["why"] == f"the finalized features need a newer version than {OLD}"
    assert done(cluster, "finalize:kraft")["asked"] == {"kraft.version": 1}


def test_a_refused_downgrade_has_kafkas_reason_and_ends_there() -> None:
    cluster = upgraded()
    done(cluster, "finalize:features")
    cluster.refuses = "INVALID_UPDATE_VERSION: metadata might be lost"
    value = done(cluster, "downgrade:features")
    assert value["refused"] == cluster.refuses and value["complete"] and value["took_effect"]
    assert value["asked"] == {"metadata.version": 27, "share.version": 0}
    assert set(cluster.versions.values()) == {NEW}


def test_after_an_accepted_downgrade_the_servers_go_back() -> None:
    cluster = upgraded()
    done(cluster, "finalize:features")
    cluster.levels = {**cluster.levels}
    values = [done(cluster, "downgrade:features") for _ in range(4)]
    assert [value["nodes"] for value in values] == [[], ["n2"], ["n1"], ["c1"]]
    assert [value["complete"] for value in values] == [False, False, False, True]


def test_with_zookeeper_the_protocol_is_pinned_and_lifted_in_a_second_roll() -> None:
    cluster = upgraded(pins=True)
    assert cluster.pinned == {"c1", "n1", "n2"}
    values = [done(cluster, "finalize:features") for _ in range(3)]
    assert [value["nodes"] for value in values] == [["c1"], ["n1"], ["n2"]]
    assert [value["complete"] for value in values] == [False, False, True] and not cluster.pinned
    assert "lifted" in done(cluster, "roll-back:last")["why"]


def test_a_server_that_ends_is_started_again_and_its_version_tried_on_empty_folders() -> None:
    cluster = Cluster(fails=frozenset({("c1", NEW)}))
    value = done(cluster, "upgrade:next")
    assert value["ended"] == "[now] ERROR it cannot read its data" and value["trial"] == "starts"
    assert not value["took_effect"] and not value["complete"]
    assert len(cluster.log["c1"]) == 4  # two starts, two lines each


def test_no_step_is_taken_while_the_cluster_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.effects.HEALTHY_TIMEOUT_S", 0.1)
    cluster = Cluster()
    cluster.down.add("n2")
    value = done(cluster, "upgrade:next")
    assert value["why"] == "c1 was not restarted: ['n2'] are down" and cluster.versions["c1"] == OLD
