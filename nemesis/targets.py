"""Targets: which nodes or clients a fault hits. Pure: facts and a draw in, names out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.model.randomness import Draw


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a fault is aimed.

    nodes    nodes whose server runs
    leaders  (topic, partition) -> node of the run's topics, None where there is no leader
    clients  names of the worker processes
    holders  nodes that hold the role that was asked for, once for each thing they hold it of
    beside   servers that run and are no brokers; no target but `controller` and their names means them
    sends    (topic, partition) -> how many of the last sends went there
    """

    nodes: tuple[str, ...]
    leaders: Mapping[tuple[str, int], str | None]
    clients: tuple[str, ...]
    holders: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    sends: Mapping[tuple[str, int], int] = field(default_factory=dict)


Choose = Callable[[Facts, Draw], Sequence[str]]


def _busiest(nodes: Iterable[str | None], facts: Facts, draw: Draw) -> Sequence[str]:
    """The running server that is named most often; a draw breaks ties."""
    counts = Counter(node for node in nodes if node in (*facts.nodes, *facts.beside))
    if not counts:
        return []
    most = max(counts.values())
    return [draw.choice(sorted(str(node) for node, count in counts.items() if count == most))]


def leader(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that leads what most of the last sends went to, or else most of the run's partitions; a draw
    breaks ties. None when nobody leads."""
    used = [node for at, node in facts.leaders.items() for _ in range(facts.sends.get(at, 0))]
    return _busiest(used, facts, draw) or _busiest(facts.leaders.values(), facts, draw)


def controller(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node whose controller leads the metadata quorum; with ZooKeeper, the broker that controls."""
    return _busiest(facts.holders, facts, draw)


def txn_coordinator(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that coordinates most of the run's transactional ids."""
    return _busiest(facts.holders, facts, draw)


def group_coordinator(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that coordinates the run's consumer group."""
    return _busiest(facts.holders, facts, draw)


def minority(facts: Facts, draw: Draw) -> Sequence[str]:
    """As many nodes as can fail while a majority is left, the leader among them."""
    return _some(facts, draw, (len(facts.nodes) - 1) // 2)


def majority(facts: Facts, draw: Draw) -> Sequence[str]:
    """The smallest number of nodes without which no majority is left, the leader among them."""
    return _some(facts, draw, len(facts.nodes) // 2 + 1)


def _some(facts: Facts, draw: Draw, count: int) -> Sequence[str]:
    first = list(leader(facts, draw))
    rest = [node for node in facts.nodes if node not in first]
    return [*first, *draw.shuffled(rest)][:count]


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


def some_clients(facts: Facts, draw: Draw) -> Sequence[str]:
    """Any half of the client processes, rounded up."""
    return draw.shuffled(facts.clients)[: -(-len(facts.clients) // 2)]


def all_clients(facts: Facts, draw: Draw) -> Sequence[str]:
    """Every client process."""
    return facts.clients


NODE_TARGETS: Final[Mapping[str, Choose]] = {
    "leader": leader,
    "controller": controller,
    "txn-coordinator": txn_coordinator,
    "group-coordinator": group_coordinator,
    "follower": follower,
    "one": one,
    "minority": minority,
    "majority": majority,
    "all": all_nodes,
}
CLIENT_TARGETS: Final[Mapping[str, Choose]] = {
    "client": client,
    "some-clients": some_clients,
    "clients": all_clients,
}
# Targets that are several nodes at once, or may be.
SEVERAL: Final = frozenset({"minority", "majority", "all"})
EVERY_NODE: Final = 1000


def nodes_at_once(target: str) -> int:
    """How many nodes a fault hits in one moment, or more: 1, or all of them."""
    return EVERY_NODE if target in SEVERAL else 1


# Targets for which the cluster must be asked who holds a role.
ROLES: Final = frozenset({"controller", "txn-coordinator", "group-coordinator"})


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
