"""Who leads what, as the cluster says, and the run's topics."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.cluster.views import View, newest
from harness.model.errors import ClusterTrouble
from harness.model.op import Op

AHEAD: Final = 2  # topics made before a key needs them
CREATE_TIMEOUT_S: Final = 30.0

Call = Callable[..., Any]


class AdminRoles:
    """`harness.model.protocols.Roles` over admin calls, where brokers cannot be asked one by one.

    Broker id n is the n-th node.
    """

    def __init__(self, call: Call, nodes: tuple[str, ...], replication: int) -> None:
        self._call, self._nodes, self._replication = call, nodes, replication

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        rows = self._call("partitions", timeout_s + 2.0, timeout_s=timeout_s)
        return {(row["topic"], row["partition"]): _node(self._nodes, row["leader"]) for row in rows}

    def unhealthy(self) -> str:
        brokers = self._call("brokers", 7.0, timeout_s=5.0)
        rows = self._call("partitions", 7.0, timeout_s=5.0)
        replicas = [(row["leader"], len(row["isr"])) for row in rows]
        return _unhealthy(len(brokers), len(self._nodes), replicas, self._replication)


class ViewRoles:
    """`harness.model.protocols.Roles` from every broker's own view, the newest of which counts."""

    def __init__(
        self, views: Callable[[], list[View]], run: str, nodes: tuple[str, ...], replication: int
    ) -> None:
        self._views, self._run, self._nodes, self._replication = views, run, nodes, replication

    def _now(self) -> View:
        views = self._views()
        if not views:
            raise ClusterTrouble("no broker answers a metadata request")
        now = newest(views)
        ours = {at: said for at, said in now.partitions.items() if at[0].startswith(f"{self._run}-")}
        return View(now.brokers, ours)

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        return {at: _node(self._nodes, said.leader) for at, said in self._now().partitions.items()}

    def unhealthy(self) -> str:
        now = self._now()
        replicas = [(said.leader, len(said.isr)) for said in now.partitions.values()]
        return _unhealthy(len(now.brokers), len(self._nodes), replicas, self._replication)


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


class Topics:
    """Makes the topic of a key before the key is first used, a few ahead so that nobody waits.

    Key k is partition k mod P of the topic `<run>-<k div P>`.
    """

    def __init__(
        self, call: Call, run: str, partitions: int, replication: int, config: Mapping[str, str]
    ) -> None:
        self._call, self._run = call, run
        self._partitions, self._replication, self._config = partitions, replication, config
        self._made = 0
        self._lock = threading.Lock()
        self._ahead: threading.Thread | None = None

    def name(self, number: int) -> str:
        return f"{self._run}-{number}"

    def ensure(self, key_max: int) -> None:
        """Topics up to that of `key_max`, and some more. Raises ClusterTrouble after some tries."""
        with self._lock:
            needed = key_max // self._partitions + 1 + AHEAD
            if needed <= self._made:
                return
            names = [self.name(number) for number in range(self._made, needed)]
            for last in (False, False, True):
                try:
                    self._create(names)
                    break
                except ClusterTrouble:
                    if last:
                        raise
            self._made = needed

    def _create(self, names: list[str]) -> None:
        self._call(
            "create_topics",
            CREATE_TIMEOUT_S + 2.0,
            names=names,
            partitions=self._partitions,
            replication=self._replication,
            config=dict(self._config),
            timeout_s=CREATE_TIMEOUT_S,
        )

    def before(self, op: Op) -> None:
        """Called before an op is dispatched: its keys must have topics. Waits only if there is none yet."""
        if not isinstance(op.value, list):
            return
        for mop in op.value:
            if isinstance(mop, list) and mop[0] == "send":
                number = mop[1] // self._partitions
                if number >= self._made:
                    self.ensure(mop[1])
                elif number + AHEAD >= self._made and (self._ahead is None or not self._ahead.is_alive()):
                    self._ahead = threading.Thread(target=self._make_ahead, args=(mop[1],), daemon=True)
                    self._ahead.start()

    def _make_ahead(self, key: int) -> None:
        """In a thread; what fails here is tried again when it is needed."""
        with contextlib.suppress(ClusterTrouble):
            self.ensure(key)
