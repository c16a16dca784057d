"""The targets of faults: functions that choose the nodes or clients to hit.

Each function is pure: it takes the facts about the cluster and a source of randomness, and returns names. Its docstring
is a noun phrase, because it is also the description of the target in the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.model.fault_and_generator_protocols import GROUP, SHARE_GROUP, TRANSACTIONS
from harness.model.randomness import Draw


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of the cluster at the moment a fault chooses its targets.

    nodes        nodes whose server is running
    leaders      (topic, partition) -> leader, for the run's topics; None where there is no leader
    clients      names of the worker processes
    holders      the nodes that have the role that the target names; a coordinator occurs once for each group or
                 transactional id that it coordinates
    non_brokers  running servers that are not brokers; only the target `controller`, or a server's own name, selects
                 them
    sends        (topic, partition) -> how many of the most recent sends went there
    """

    nodes: tuple[str, ...]
    leaders: Mapping[tuple[str, int], str | None]
    clients: tuple[str, ...]
    holders: tuple[str, ...] = ()
    non_brokers: tuple[str, ...] = ()
    sends: Mapping[tuple[str, int], int] = field(default_factory=dict)


Choose = Callable[[Facts, Draw], Sequence[str]]


def _busiest(nodes: Iterable[str | None], facts: Facts, draw: Draw) -> Sequence[str]:
    """Returns the running server that occurs most often in `nodes`, as a list. Ties are broken at random."""
    counts = Counter(node for node in nodes if node in (*facts.nodes, *facts.non_brokers))
    if not counts:
        return []
    most = max(counts.values())
    return [draw.choice(sorted(str(node) for node, count in counts.items() if count == most))]


def leader(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that as leader got the largest share of recent sends, or, without sends, leads the most partitions.

    Only the run's partitions count. Ties are broken at random. Empty if no partition has a leader.
    """
    used = [node for at, node in facts.leaders.items() for _ in range(facts.sends.get(at, 0))]
    return _busiest(used, facts, draw) or _busiest(facts.leaders.values(), facts, draw)


def controller(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node whose controller leads the metadata quorum, or, with ZooKeeper, the broker that is the controller."""
    return _busiest(facts.holders, facts, draw)


def txn_coordinator(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that coordinates the largest number of the run's transactional ids."""
    return _busiest(facts.holders, facts, draw)


def group_coordinator(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that coordinates the run's consumer group."""
    return _busiest(facts.holders, facts, draw)


def share_coordinator(facts: Facts, draw: Draw) -> Sequence[str]:
    """The node that stores the state of the largest number of the run's share partitions (KIP-932)."""
    return _busiest(facts.holders, facts, draw)


def minority(facts: Facts, draw: Draw) -> Sequence[str]:
    """The leader and random other nodes: as many as can fail while a majority survives."""
    return _some(facts, draw, (len(facts.nodes) - 1) // 2)


def majority(facts: Facts, draw: Draw) -> Sequence[str]:
    """The leader and random other nodes: just enough to leave no majority."""
    return _some(facts, draw, len(facts.nodes) // 2 + 1)


def _some(facts: Facts, draw: Draw, count: int) -> Sequence[str]:
    first = list(leader(facts, draw))
    rest = [node for node in facts.nodes if node not in first]
    return [*first, *draw.shuffled(rest)][:count]


def follower(facts: Facts, draw: Draw) -> Sequence[str]:
    """A random node other than the one that `leader` would choose."""
    rest = [node for node in facts.nodes if node not in leader(facts, draw)]
    return [draw.choice(rest)] if rest else []


def one(facts: Facts, draw: Draw) -> Sequence[str]:
    """A random running node."""
    return [draw.choice(facts.nodes)] if facts.nodes else []


def all_nodes(facts: Facts, draw: Draw) -> Sequence[str]:
    """Every running node."""
    return facts.nodes


def client(facts: Facts, draw: Draw) -> Sequence[str]:
    """A random client process."""
    return [draw.choice(facts.clients)] if facts.clients else []


def some_clients(facts: Facts, draw: Draw) -> Sequence[str]:
    """A random half of the client processes, rounded up."""
    return draw.shuffled(facts.clients)[: -(-len(facts.clients) // 2)]


def all_clients(facts: Facts, draw: Draw) -> Sequence[str]:
    """Every client process."""
    return facts.clients


NODE_TARGETS: Final[Mapping[str, Choose]] = {
    "leader": leader,
    "controller": controller,
    "txn-coordinator": txn_coordinator,
    "group-coordinator": group_coordinator,
    "share-coordinator": share_coordinator,
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
# Targets that select, or may select, several nodes at once.
SEVERAL: Final = frozenset({"minority", "majority", "all"})
EVERY_NODE: Final = 1000


def nodes_at_once(target: str) -> int:
    """Returns the maximum number of nodes that the target selects at once: 1, or EVERY_NODE if there is no limit."""
    return EVERY_NODE if target in SEVERAL else 1


# Targets for which the cluster must be queried for the nodes that have a role.
ROLES: Final = frozenset({"controller", "txn-coordinator", "group-coordinator", "share-coordinator"})


# What the load must use, so that a node has the role: see harness.model.fault_and_generator_protocols.USES.
USE_OF_ROLE: Final = {
    "txn-coordinator": TRANSACTIONS,
    "group-coordinator": GROUP,
    "share-coordinator": SHARE_GROUP,
}


def new_leaders(
    before: Mapping[tuple[str, int], str | None],
    now: Mapping[tuple[str, int], str | None],
    lost: Sequence[str],
) -> dict[str, str]:
    """Returns "topic-partition" -> new leader, for partitions that a lost node led before and another node leads now.

    before, now  (topic, partition) -> leader, or None
    lost         the nodes that have become unavailable
    """
    moved = {}
    for partition, node in now.items():
        if before.get(partition) in lost and node is not None and node not in lost:
            moved[f"{partition[0]}-{partition[1]}"] = node
    return moved
