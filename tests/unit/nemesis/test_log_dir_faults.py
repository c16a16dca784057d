"""Faults on log directories: which logs are moved, and what counts as an effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from harness.generator import op
from harness.model.capabilities import LogDir, LogDirs, offers
from harness.model.randomness import Draw
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.verbs.move_log_dir import moves
from tests.unit.nemesis.test_faults import NODES, FakeCluster, env_of

DIRS = {
    "/d/data": LogDir("", {("r-0", 0): False, ("r-0", 1): False, ("r-0", 2): True, ("other", 0): False}),
    "/d/data2": LogDir("", {("r-0", 2): False}),
}


def test_half_of_the_runs_logs_move_to_another_directory() -> None:
    chosen = [moves(DIRS, "r-", Draw.of(seed, "test", 0)) for seed in range(30)]
    now = {("r-0", 0): "/d/data", ("r-0", 1): "/d/data", ("r-0", 2): "/d/data2"}
    assert all(len(each) == 2 and each.keys() <= now.keys() for each in chosen)
    assert all(to != now[at] for each in chosen for at, to in each.items())
    assert {at for each in chosen for at in each} == now.keys()


def test_nothing_moves_to_an_offline_directory() -> None:
    dirs = {**DIRS, "/d/data2": LogDir("KAFKA_STORAGE_ERROR")}
    assert moves(dirs, "r-", Draw.of(1, "test", 0)) == {}


@dataclass
class Several(FakeCluster):
    """Brokers with two directories. A failed directory is offline at once."""

    failed: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)
    empty: bool = False

    def log_dirs(self, node: str) -> dict[str, LogDir]:
        second = {} if self.empty else {("r-0", 1): False}
        return {
            "/d/data": LogDir("", {("r-0", 0): False}),
            "/d/data2": LogDir("KAFKA_STORAGE_ERROR") if node in self.failed else LogDir("", second),
        }

    def move_logs(self, node: str, moves: Any) -> dict[Any, str]:
        return {at: "KAFKA_STORAGE_ERROR" for logs in moves.values() for at in logs}

    def fail_log_dir(self, node: str) -> str:
        self.failed.add(node)
        return "/d/data2"

    def mend_log_dir(self, node: str) -> None:
        assert not self.running(node)
        self.failed.discard(node)


def _run(cluster: Several, name: str, *fs: str) -> list[dict[str, Any]]:
    assert offers(cluster, LogDirs)
    (fault,) = table.faults([name], Timing())
    env = replace(env_of(cluster), effect_s=0.0, healthy_s=0.0)
    env.roles.topic_prefix = lambda: "r-"  # type: ignore[method-assign]
    return [fault.nemesis.invoke(env, op(f)).value for f in fs]


def test_a_failed_directory_is_repaired_while_its_server_is_down() -> None:
    cluster = Several()
    began, ended = _run(cluster, "fail-log-dir:n2", "fail-log-dir", "mend-log-dir")
    assert began["took_effect"] and began["offline"] == {"n2": ["data2"]} and began["logs"] == {"n2": 1}
    assert ended["nodes"] == ["n2"] and not cluster.failed
    assert all(cluster.running(node) for node in NODES)


def test_without_logs_in_it_a_failed_directory_has_no_effect() -> None:
    (began,) = _run(Several(empty=True), "fail-log-dir:n2", "fail-log-dir")
    assert not began["took_effect"] and began["offline"] == {"n2": ["data2"]}


def test_a_refused_move_has_no_effect() -> None:
    (began,) = _run(Several(), "move-log-dir:n1", "move-log-dir")
    assert (began["took_effect"], began["not_moved"], began["errors"]) == (False, 1, ["KAFKA_STORAGE_ERROR"])
