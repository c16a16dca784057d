"""The steps of recovery scenarios, on a fake cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env
from harness.model.op import INFO, NEMESIS, Op
from harness.model.randomness import Draw
from nemesis.recovery.run_steps import Steps, fault, roles
from nemesis.targets import Facts

CAME_UP = (
    b"INFO Recovering 1 logs from /d/data since no clean shutdown file was found (LogManager)\n"
    b"INFO [LogLoader partition=r-0-0] Recovering unflushed segment 52. 0 recovered for r-0-0. (L)\n"
    b"INFO Loaded 1 logs in 12ms (unclean log dirs = /d/data) (LogManager)\n"
)
STARTED = b"INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)\n"


@dataclass
class Servers:
    """Satisfies Cluster, Processes, Files, LogFolders, ServerLogs."""

    says: bytes = CAME_UP + STARTED
    comes_up: bool = True
    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    bootstrap: str = ""
    up_: set[str] = field(default_factory=lambda: {"n1", "n2", "n3"})
    logs: dict[str, bytes] = field(default_factory=dict)
    done: list[tuple[str, ...]] = field(default_factory=list)

    def up(self, progress: Any) -> None: ...
    def down(self) -> None: ...
    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> Any: ...
    def pause(self, node: str) -> None:
        self.done.append(("pause", node))

    def resume(self, node: str) -> None: ...
    def kill(self, node: str) -> None:
        self.done.append(("kill", node))
        self.up_.discard(node)

    def stop(self, node: str, within_s: float = 60.0) -> None:
        self.up_.discard(node)

    def start(self, node: str) -> None:
        self.logs[node] = self.logs.get(node, b"old\n") + self.says
        if self.comes_up:
            self.up_.add(node)

    def running(self, node: str) -> bool:
        return node in self.up_

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        self.done.append((kind, node))
        return {} if kind == "nothing" else {"changed": 1}

    def log_folders(self, node: str, topic_prefix: str) -> Mapping[str, Any]:
        return {"clean": False, "logs": {f"{topic_prefix}0-0": {"segments": [[0, 9], [52, 9]], "point": 52}}}

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        log = self.logs.get(node, b"old\n")
        return (b"", len(log)) if offset is None else (log[offset:], len(log))


class Roles:
    """Satisfies Roles."""

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        return {("r-0", 0): "n2", ("r-1", 0): "n3"}

    def topic_prefix(self) -> str:
        return "r-"

    def holders(self, role: str) -> Sequence[str]:
        return []

    def unhealthy(self) -> str:
        return ""


class Nobody:
    def names(self) -> tuple[str, ...]:
        return ()

    def signal(self, name: str, number: int) -> bool:
        return False


def _env(cluster: Servers) -> Env:
    return Env(cluster, Roles(), Nobody(), Draw.of(1, "test", 0), healthy_s=1.0)


def _do(steps: Steps, cluster: Servers, **value: Any) -> dict[str, Any]:
    op = Op(-1, -1, NEMESIS, INFO, "step", value, None, {"fault": "recovery"})
    done: dict[str, Any] = steps.invoke(_env(cluster), op).value
    return done


def test_roles_are_those_of_the_beginning() -> None:
    found = roles(Facts(("n1", "n2", "n3"), {("r-0", 0): "n2"}, ()), "r-")
    assert found["leader"] == ["n2"] and found["followers"] == ["n1", "n3"] and found["two"] == ["n2", "n1"]
    with pytest.raises(ClusterTrouble):
        roles(Facts(("n1",), {("r-0", 0): None}, ()), "r-")


def test_a_kill_damage_and_a_start() -> None:
    cluster, steps = Servers(), Steps()
    assert _do(steps, cluster, do="kill", who="leader")["took_effect"]
    assert cluster.done == [("pause", "n2"), ("kill", "n2")]
    assert _do(steps, cluster, do="damage", who="leader", kind="flip-last")["damage"] == {"n2": {"changed": 1}}
    value = _do(steps, cluster, do="start", who="leader", expect={"recovers": "point"})
    assert value["nodes"] == ["n2"] and value["took_effect"] and value["expect"] == {"recovers": "point"}
    assert value["log"]["n2"]["segments"] == {"r-0-0": [52]} and value["log"]["n2"]["all_ms"] == 12
    assert value["before"]["n2"]["logs"]["r-0-0"]["point"] == 52 and value["ended"] == []


def test_a_server_that_ends_as_it_starts() -> None:
    cluster, steps = (
        Servers(says=b"ERROR Malformed line in checkpoint file [x]: y\n", comes_up=False),
        Steps(),
    )
    _do(steps, cluster, do="stop", who="follower")
    value = _do(steps, cluster, do="start", who="follower")
    assert value["ended"] == ["n1"] and "malformed" in value["log"]["n1"]["said"]


def test_killed_at_a_line() -> None:
    cluster, steps = Servers(), Steps()
    _do(steps, cluster, do="stop", who="leader")
    value = _do(steps, cluster, do="start-kill", who="leader", kind="Recovering unflushed")
    assert value["took_effect"] and "unflushed segment 52" in value["at"] and not cluster.running("n2")
    never = _do(steps, Servers(up_={"n1", "n3"}, comes_up=False), do="start-kill", who="leader", kind="no such line")
    assert not never["took_effect"]


def test_missing_effects_are_reported() -> None:
    cluster, steps = Servers(), Steps()
    assert not _do(steps, cluster, do="damage", who="leader", kind="nothing")["took_effect"]
    alone = Servers(nodes=("n2",), up_={"n2"})
    assert "too few nodes" in _do(Steps(), alone, do="kill", who="follower")["why"]


def test_what_a_scenario_needs_of_a_cluster() -> None:
    assert {need.__name__ for need in fault(disks=True, network=True).needs} >= {
        "Disks",
        "Network",
        "LogFolders",
    }
    assert "Disks" not in {need.__name__ for need in fault().needs}
