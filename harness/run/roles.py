"""Finds out which brokers are leaders, controllers and coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from harness.model.capabilities import MetadataServers, offers
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.protocol.brokers_metadata_views import View, newest

# The internal topics whose leaders are the coordinators (KIP-98; Kafka documentation, Design, 4.7).
TXN_TOPIC: Final = "__transaction_state"
GROUP_TOPIC: Final = "__consumer_offsets"
SHARE_TOPIC: Final = "__share_group_state"
_TOPICS: Final = {"txn-coordinator": TXN_TOPIC, "group-coordinator": GROUP_TOPIC, "share-coordinator": SHARE_TOPIC}

Call = Callable[..., Any]


@runtime_checkable
class Viewed(Protocol):
    """A cluster whose brokers can be queried one by one."""

    nodes: tuple[str, ...]

    def views(self) -> list[View]: ...
    def controller(self) -> int | None: ...


@runtime_checkable
class Coordinated(Protocol):
    """A cluster that reports the coordinators itself, because it has no internal topics that determine them."""

    def coordinator(self, role: str, name: str) -> int | None: ...


class AdminRoles:
    """Implements `harness.model.fault_and_generator_protocols.Roles` with admin calls.

    Used for clusters whose brokers cannot be queried one by one.

    nodes  broker id -> name of the node
    """

    def __init__(self, call: Call, run: str, nodes: Mapping[int, str], replication: int) -> None:
        self._call, self._run, self._nodes, self._replication = call, run, nodes, replication

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        rows = self._call("partitions", timeout_s + 2.0, timeout_s=timeout_s)
        return {(row["topic"], row["partition"]): self._nodes.get(row["leader"]) for row in rows}

    def topic_prefix(self) -> str:
        return f"{self._run}-"

    def holders(self, role: str) -> Sequence[str]:
        """Returns [], because admin calls do not report controllers and coordinators."""
        return []

    def unhealthy(self) -> str:
        brokers = self._call("brokers", 7.0, timeout_s=5.0)
        rows = self._call("partitions", 7.0, timeout_s=5.0)
        replicas = [(row["leader"], len(row["isr"])) for row in rows]
        return _unhealthy(len(brokers), len(self._nodes), replicas, self._replication)


class ViewRoles:
    """Implements `harness.model.fault_and_generator_protocols.Roles` by querying each broker's view of the cluster.

    If the views differ, the newest view counts. The broker ids 1, 2, ... stand for the nodes and then for the dedicated
    controllers.
    """

    def __init__(
        self,
        cluster: Viewed,
        run: str,
        group: str,
        concurrency: int,
        replication: int,
        share_groups: Sequence[str] = (),
        topic_ids: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """group: the run's consumer group, share_groups: its share groups, topic_ids: returns topic -> id, as text."""
        self._cluster, self._nodes = cluster, cluster.nodes
        self._run, self._concurrency = run, concurrency
        self._groups, self._share_groups = share_groups or [group], share_groups
        self._replication = replication
        self._find_topic_ids, self._topic_ids = topic_ids, dict[str, str]()

    def _everything(self) -> View:
        views = self._cluster.views()
        if not views:
            raise ClusterTrouble("no broker responds to a metadata request")
        return newest(views)

    def _now(self) -> View:
        now = self._everything()
        ours = {at: partition for at, partition in now.partitions.items() if at[0].startswith(f"{self._run}-")}
        return View(now.brokers, ours)

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        return {at: _node(self._nodes, partition.leader) for at, partition in self._now().partitions.items()}

    def topic_prefix(self) -> str:
        return f"{self._run}-"

    def holders(self, role: str) -> Sequence[str]:
        if role == "controller":
            brokers: Sequence[int | None] = [self._cluster.controller()]
        else:
            ids = [f"{self._run}-{slot}" for slot in range(self._concurrency)]
            named = {"txn-coordinator": ids, "group-coordinator": self._groups}
            brokers = self._coordinators(role, named[role] if role in named else self._share_partitions())
        dedicated = self._cluster.metadata_servers if offers(self._cluster, MetadataServers) else ()
        found = [_node((*self._nodes, *dedicated), broker) for broker in brokers]
        return [node for node in found if node is not None]

    def _coordinators(self, role: str, named: Sequence[str]) -> Sequence[int | None]:
        if offers(self._cluster, Coordinated):
            return [self._cluster.coordinator(role, name) for name in named]
        everything = self._everything().partitions
        topic = _TOPICS[role]
        count = sum(1 for name, _ in everything if name == topic)
        return [everything[topic, coordinating(name, count)].leader for name in named if count]

    def _share_partitions(self) -> list[str]:
        """Returns the names by which share coordinators are found: group, topic id and partition (KIP-932)."""
        if not self._share_groups:
            return []
        partitions = self._now().partitions
        if not {topic for topic, _ in partitions} <= self._topic_ids.keys():  # ids of topics never change
            self._topic_ids = dict(self._find_topic_ids())
        return [
            f"{group}:{self._topic_ids[topic]}:{number}"
            for group in self._share_groups
            for topic, number in partitions
            if topic in self._topic_ids
        ]

    def unhealthy(self) -> str:
        answered = len(self._cluster.views())
        if answered < len(self._nodes):  # a restarted broker may still be registered
            return f"{answered} of {len(self._nodes)} brokers respond"
        silent = self._cluster.silent() if offers(self._cluster, MetadataServers) else ()
        if silent:
            return f"{', '.join(silent)} did not respond"
        if self._cluster.controller() is None:
            return "no broker knows the active controller"
        now = self._now()
        replicas = [(partition.leader, len(partition.isr)) for partition in now.partitions.values()]
        return _unhealthy(len(now.brokers), len(self._nodes), replicas, self._replication)


def coordinating(name: str, partitions: int) -> int:
    """Returns the number of the partition whose leader coordinates a group or a transactional id.

    It is computed from Java's hash of the name.

    partitions  number of partitions of the internal topic
    """
    code = 0
    for unit in memoryview(name.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def _node(nodes: tuple[str, ...], broker: int | None) -> str | None:
    return nodes[broker - 1] if broker is not None and 1 <= broker <= len(nodes) else None


def _unhealthy(brokers: int, nodes: int, replicas: list[tuple[int | None, int]], replication: int) -> str:
    if brokers < nodes:
        return f"{brokers} of {nodes} brokers are registered"
    leaderless = sum(1 for leader, _ in replicas if leader is None)
    if leaderless:
        return f"{leaderless} of {len(replicas)} partitions have no leader"
    behind = sum(1 for _, in_sync in replicas if in_sync < replication)
    return f"{behind} of {len(replicas)} partitions have replicas out of sync" if behind else ""
