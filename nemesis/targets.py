"""Targets: which nodes or clients a fault hits. Pure: facts and a draw in, names out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.draw import Draw


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a fault is aimed.

    nodes    nodes whose server runs
    leaders  (topic, partition) -> node of the run's topics, None where there is no leader
    clients  names of the worker processes
    """

    nodes: tuple[str, ...]
    leaders: Mapping[tuple[str, int], str | None]
    clients: tuple[str, ...]


Choose = Callable[[Facts, Draw], Sequence[str]]


def leader(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that leads most of the run's partitions; a draw breaks ties. None when nobody leads."""
    led = Counter(node for node in facts.leaders.values() if node in facts.nodes)
    if not led:
        return []
    most = max(led.values())
    return [draw.choice(sorted(str(node) for node, count in led.items() if count == most))]


def follower(facts: Facts, draw: Draw) -> Sequence[str]:
    """A node other than the one that `leader` would choose."""
    rest = [node for node in facts.nodes if node not in leader(facts, draw)]
    return [draw.choice(rest)] if rest else []


def one(facts: Facts, draw: Draw) -> Sequence[str]:
    """Any node that runs."""
    return [draw.choice(facts.nodes)] if facts.nodes else []


def all_nodes(facts: Facts, draw: Draw) -> Sequence[str]:
    """Every node that runs."""
    return facts.nodes


def client(facts: Facts, draw: Draw) -> Sequence[str]:
    """Any client process."""
    return [draw.choice(facts.clients)] if facts.clients else []


def all_clients(facts: Facts, draw: Draw) -> Sequence[str]:
    """Every client process."""
    return facts.clients


NODE_TARGETS: Final[Mapping[str, Choose]] = {
    "leader": leader,
    "follower": follower,
    "one": one,
    "all": all_nodes,
}
CLIENT_TARGETS: Final[Mapping[str, Choose]] = {"client": client, "clients": all_clients}


def led_by(facts: Facts, nodes: Sequence[str]) -> list[tuple[str, int]]:
    """Partitions that some of these nodes lead."""
    return sorted(partition for partition, node in facts.leaders.items() if node in nodes)


def new_leaders(
    before: Mapping[tuple[str, int], str | None],
    now: Mapping[tuple[str, int], str | None],
    lost: Sequence[str],
) -> dict[str, str]:
    """`topic-partition` -> its new leader, for the partitions that moved away from the lost nodes."""
    moved = {}
    for partition, node in now.items():
        if before.get(partition) in lost and node is not None and node not in lost:
            moved[f"{partition[0]}-{partition[1]}"] = node
    return moved
