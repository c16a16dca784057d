"""Where the replicas of partitions are, and how to move them; for the faults that elect leaders or move replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from harness.model.fault_and_generator_protocols import Env
from harness.model.randomness import Draw
from nemesis.shared.admin_fault import admin
from nemesis.shared.effects import EFFECT_TIMEOUT_S, wait_for

SOME: Final = "some"
ALL: Final = "all"

At: TypeAlias = tuple[str, int]
Lists: TypeAlias = Mapping[At, Sequence[int]]
"""(topic, partition) -> broker ids of its replicas, the preferred leader first."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition as the brokers' metadata describes it. Brokers are ids."""

    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: frozenset[int]

    @property
    def at(self) -> At:
        return self.topic, self.number

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


def placed(env: Env, everything: bool = False) -> list[Placed]:
    """Returns every partition of the run, or, with `everything`, every partition of all topics.

    Raises ClusterTrouble.
    """
    rows: list[dict[str, Any]] = admin(env, "partitions", everything=everything)
    return [
        Placed(row["topic"], row["partition"], row["leader"], tuple(row["replicas"]), frozenset(row["isr"]))
        for row in rows
    ]


def chosen(rows: Sequence[Placed], target: str, draw: Draw) -> list[Placed]:
    """Returns the partitions that the target selects: for `some`, a random half of them, rounded up; otherwise all."""
    if target == SOME:
        rows = draw.shuffled(rows)[: -(-len(rows) // 2)]
    return sorted(rows, key=lambda row: row.at)


def node_of(env: Env, broker: int) -> str:
    """Returns the name of the node with this broker id: the broker with id n is the n-th node."""
    return env.cluster.nodes[broker - 1]


def broker_of(env: Env, node: str) -> int:
    return env.cluster.nodes.index(node) + 1


def move(env: Env, lists: Lists) -> None:
    """Requests that partitions are reassigned to these replicas.

    Returns without waiting for the end of the reassignment. Raises ClusterTrouble.
    """
    if lists:
        admin(env, "reassign", replicas=[[*at, list(ids)] for at, ids in sorted(lists.items())])


def wait_moved(env: Env, lists: Lists, timeout_s: float = EFFECT_TIMEOUT_S) -> int:
    """Waits until the partitions have exactly these replicas, in this order, or the time limit is reached.

    lists  (topic, partition) -> the expected replicas

    Returns how many partitions have the expected replicas at the end. (During a reassignment, the metadata lists both
    the replicas that are added and the replicas that are removed.) The wait ends only after two equal responses in a
    row, because any broker may respond, and some brokers learn of a change later than others.
    """
    moved = -1

    def all_moved() -> bool:
        nonlocal moved
        before = moved
        now = {row.at: row.replicas for row in placed(env, everything=True)}
        moved = sum(now.get(at) == tuple(ids) for at, ids in lists.items())
        return before == moved == len(lists)

    wait_for(all_moved, min(timeout_s, env.effect_s))
    return moved


def moves(env: Env, before: Sequence[Placed], lists: Lists) -> dict[str, list[list[str]]]:
    """Returns the moves in the form in which the history records them: partition -> [old nodes, new nodes]."""
    return {
        row.name: [[node_of(env, broker) for broker in ids] for ids in (row.replicas, lists[row.at])]
        for row in before
        if row.at in lists
    }
