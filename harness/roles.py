"""What the cluster says of itself, and the run's topics: both through the admin worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.model.op import Op

AHEAD: Final = 2  # topics made before a key needs them
CREATE_TIMEOUT_S: Final = 30.0

Call = Callable[..., Any]


class AdminRoles:
    """`harness.model.protocols.Roles` over admin calls. Broker id n is the node named by `node_of`."""

    def __init__(self, call: Call, nodes: tuple[str, ...], replication: int) -> None:
        self._call, self._nodes, self._replication = call, nodes, replication

    def _node(self, broker: int | None) -> str | None:
        return self._nodes[broker - 1] if broker is not None and 1 <= broker <= len(self._nodes) else None

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        rows = self._call("partitions", timeout_s + 2.0, timeout_s=timeout_s)
        return {(row["topic"], row["partition"]): self._node(row["leader"]) for row in rows}

    def unhealthy(self) -> str:
        brokers = self._call("brokers", 7.0, timeout_s=5.0)
        if len(brokers) < len(self._nodes):
            return f"{len(brokers)} of {len(self._nodes)} brokers are registered"
        rows = self._call("partitions", 7.0, timeout_s=5.0)
        leaderless = [row for row in rows if row["leader"] is None]
        if leaderless:
            return f"{len(leaderless)} of {len(rows)} partitions have no leader"
        behind = [row for row in rows if len(row["isr"]) < self._replication]
        return f"{len(behind)} of {len(rows)} partitions have replicas out of sync" if behind else ""


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

    def name(self, number: int) -> str:
        return f"{self._run}-{number}"

    def ensure(self, key_max: int) -> None:
        """Topics up to that of `key_max`, and some more. Raises ClusterTrouble."""
        needed = key_max // self._partitions + 1
        if needed <= self._made:
            return
        names = [self.name(number) for number in range(self._made, needed + AHEAD)]
        self._call(
            "create_topics",
            CREATE_TIMEOUT_S + 2.0,
            names=names,
            partitions=self._partitions,
            replication=self._replication,
            config=dict(self._config),
            timeout_s=CREATE_TIMEOUT_S,
        )
        self._made = needed + AHEAD

    def before(self, op: Op) -> None:
        """Called before an op is dispatched: its keys must have topics."""
        if isinstance(op.value, list):
            for mop in op.value:
                if isinstance(mop, list) and mop[0] == "send" and mop[1] // self._partitions >= self._made:
                    self.ensure(mop[1])
