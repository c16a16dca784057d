"""Kafka on this machine, from nothing but Python and Java: all of it under one supervisor.

`LocalCluster` gives each node and each worker host a network namespace and an address of its own, and can cut
them off from each other. `LoopbackCluster` is for systems that refuse namespaces: ports on 127.0.0.1, and no
network faults. `make` chooses. Whatever ends this process, kill -9 included, ends all of it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from harness.cluster import namespaces
from harness.cluster.broker import MAX_NODES, Node
from harness.cluster.fleet import Fleet, Spec
from harness.cluster.jars import DEFAULT_VERSION, Jars
from harness.cluster.java import Java
from harness.cluster.remote import RemoteChild
from harness.cluster.views import View
from harness.model.errors import BadInput, Missing
from harness.model.protocols import CommandResult

Mode = Literal["auto", "namespaces", "loopback"]
Progress = Callable[[str], None]


def make(
    nodes: int = 3,
    version: str = DEFAULT_VERSION,
    broker_config: Mapping[str, str] | None = None,
    work_dir: Path = Path("cluster"),
    mode: Mode = "auto",
    java: Java | None = None,
    jars: Jars | None = None,
    outside: bool = False,
    notice: Progress = print,
    disks: bool = False,
) -> LocalCluster | LoopbackCluster:
    """A cluster of the kind that this system allows; in mode "auto", `notice` hears why it is the lesser one.

    Raises BadInput for what makes no sense, Missing when `mode` insists on namespaces and they are refused.
    """
    if mode not in ("auto", "namespaces", "loopback"):
        raise BadInput(f"cluster mode {mode!r}: give auto, namespaces or loopback")
    if mode != "loopback":
        allowed, reason = namespaces.available()
        if allowed:
            return LocalCluster(nodes, version, broker_config, work_dir, java, jars, outside, disks)
        if mode == "namespaces":
            raise Missing(
                f"network namespaces are refused here: {reason}; use loopback, without network faults"
            )
        notice(
            f"network namespaces are refused here: {reason}. Brokers run on loopback ports; no network faults"
        )
    return LoopbackCluster(nodes, version, broker_config, work_dir, java, jars)


class LoopbackCluster:
    """Brokers on ports of 127.0.0.1. Satisfies Cluster, Hosts, Processes, Files, Logs; not Network.

    work_dir must not hold a cluster yet; `down` removes what was put there. java, jars: found when None.
    """

    def __init__(
        self,
        nodes: int = 3,
        version: str = DEFAULT_VERSION,
        broker_config: Mapping[str, str] | None = None,
        work_dir: Path = Path("cluster"),
        java: Java | None = None,
        jars: Jars | None = None,
    ) -> None:
        ports = free_ports(2 * _counted(nodes))
        places = tuple(
            Node(f"n{i}", i, "127.0.0.1", ports[2 * i - 2], ports[2 * i - 1]) for i in range(1, nodes + 1)
        )
        self._fleet = Fleet(
            Spec(places, version, dict(broker_config or {}), work_dir, False, False, java, jars)
        )
        self.nodes = self._fleet.nodes
        self.bootstrap = self._fleet.bootstrap

    @property
    def outside_bootstrap(self) -> str:
        """Where this machine's own programs reach the brokers."""
        return self._fleet.outside

    def up(self, progress: Progress) -> None:
        self._fleet.up(progress)

    def down(self) -> None:
        self._fleet.down()

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        return self._fleet.run(node, argv, timeout_s)

    def seen_by(self, node: str) -> frozenset[str]:
        """Names of the nodes that a node knows to be registered; empty when it does not answer."""
        return self._fleet.seen_by(node)

    def views(self) -> list[View]:
        """What every node that answers believes about leaders and replicas."""
        return self._fleet.views()

    def controller(self) -> int | None:
        """The id of the node that leads the metadata quorum; None when nobody says."""
        return self._fleet.controller()

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Start a process on a host; `env` is added to this process's environment."""
        return self._fleet.spawn(host, argv, env, fds, log)

    def kill(self, node: str) -> None:
        self._fleet.kill(node)

    def stop(self, node: str) -> None:
        self._fleet.stop(node)

    def pause(self, node: str) -> None:
        self._fleet.pause(node)

    def resume(self, node: str) -> None:
        self._fleet.resume(node)

    def start(self, node: str) -> None:
        self._fleet.start(node)

    def running(self, node: str) -> bool:
        return self._fleet.running(node)

    def collect(self, folder: str) -> None:
        self._fleet.collect(folder)

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        return self._fleet.files.damage(node, kind, topic_prefix, seed)


class LocalCluster:
    """Brokers, each with a network of its own.

    Satisfies Cluster, Hosts, Processes, Network, Files, Logs, Disks. With `disks` every node has a disk of
    its own too: without, the faults of Disks are refused.

    work_dir must not hold a cluster yet; `down` removes what was put there. java, jars: found when None.
    With `outside`, this machine's own programs reach the brokers too, at `outside_bootstrap` once up.
    """

    def __init__(
        self,
        nodes: int = 3,
        version: str = DEFAULT_VERSION,
        broker_config: Mapping[str, str] | None = None,
        work_dir: Path = Path("cluster"),
        java: Java | None = None,
        jars: Jars | None = None,
        outside: bool = False,
        disks: bool = False,
    ) -> None:
        places = tuple(Node(f"n{i}", i, f"10.64.1.{i}", 9092, 9093) for i in range(1, _counted(nodes) + 1))
        self._fleet = Fleet(
            Spec(places, version, dict(broker_config or {}), work_dir, True, outside, java, jars, disks)
        )
        self.nodes = self._fleet.nodes
        self.bootstrap = self._fleet.bootstrap

    @property
    def outside_bootstrap(self) -> str:
        return self._fleet.outside

    def up(self, progress: Progress) -> None:
        self._fleet.up(progress)

    def down(self) -> None:
        self._fleet.down()

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        return self._fleet.run(node, argv, timeout_s)

    def seen_by(self, node: str) -> frozenset[str]:
        """Names of the nodes that a node knows to be registered; empty when it does not answer."""
        return self._fleet.seen_by(node)

    def views(self) -> list[View]:
        """What every node that answers believes about leaders and replicas."""
        return self._fleet.views()

    def controller(self) -> int | None:
        """The id of the node that leads the metadata quorum; None when nobody says."""
        return self._fleet.controller()

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Start a process on a host; `env` is added to this process's environment."""
        return self._fleet.spawn(host, argv, env, fds, log)

    def kill(self, node: str) -> None:
        self._fleet.kill(node)

    def stop(self, node: str) -> None:
        self._fleet.stop(node)

    def pause(self, node: str) -> None:
        self._fleet.pause(node)

    def resume(self, node: str) -> None:
        self._fleet.resume(node)

    def start(self, node: str) -> None:
        self._fleet.start(node)

    def running(self, node: str) -> bool:
        return self._fleet.running(node)

    def collect(self, folder: str) -> None:
        self._fleet.collect(folder)

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        return self._fleet.files.damage(node, kind, topic_prefix, seed)

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, `at` does not hear `sources`; all are hosts, made if need be."""
        self._fleet.host(at)
        self._fleet.ask("drop", {"at": at, "sources": [self._fleet.host(source) for source in sources]})

    def heal(self) -> None:
        self._fleet.ask("heal", {})

    def power_off(self, nodes: Sequence[str]) -> Mapping[str, int]:
        return self._fleet.power_off(nodes)

    def fill(self, nodes: Sequence[str]) -> Mapping[str, int]:
        return self._fleet.files.fill(nodes)

    def free(self, nodes: Sequence[str]) -> None:
        self._fleet.files.free(nodes)

    def dropped(self, at: str) -> int:
        return int(str(self._fleet.ask("dropped", {"at": at})["packets"]))


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that nothing uses now, below the range that the system hands out itself."""
    found: list[int] = []
    for port in range(20_000 + os.getpid() * 61 % 10_000, 32_000):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise Missing(
        f"{count} free ports are needed on 127.0.0.1, and 20000 to 32000 has fewer: end what uses them"
    )


def _counted(nodes: int) -> int:
    if not 1 <= nodes <= MAX_NODES:
        raise BadInput(f"--nodes {nodes}: give 1 to {MAX_NODES}")
    return nodes
