"""Kafka on this machine, each server and each worker host with a network of its own.

`LocalCluster` gives every host a network namespace and an address, and can cut hosts off from each other; for
systems that refuse namespaces there is `harness.cluster.local.loopback`. `make` chooses.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from harness.cluster.distribution import versions
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.distribution.versions import Metadata
from harness.cluster.local import layout, namespaces, remote_process, wire_faults
from harness.cluster.local.disk_stalls import Stalls
from harness.cluster.local.layout import Layout
from harness.cluster.local.link_faults import LinkFaults, round_trip_ms
from harness.cluster.local.loopback import LoopbackCluster, Progress
from harness.cluster.local.node_files import NodeFiles
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.wire_faults import NOBODY, Proxied
from harness.model.capabilities import LinkCounts, LinkQuality
from harness.model.errors import BadInput, ClusterTrouble, Missing

Mode = Literal["auto", "namespaces", "loopback"]

FORWARD_PORT = 9094


def make(
    nodes: int = 3,
    version: str = versions.DEFAULT,
    broker_config: Mapping[str, str] | None = None,
    work_dir: Path = Path("cluster"),
    mode: Mode = "auto",
    java: Java | None = None,
    jars: Jars | None = None,
    outside: bool = False,
    notice: Progress = print,
    disks: bool = False,
    clocks: bool = False,
    metadata: Metadata | None = None,
    controllers: int = 0,
    proxy: Proxied = NOBODY,
    log_dirs: int = 1,
) -> LoopbackCluster:
    """A cluster of the kind that this system allows; in mode "auto", `notice` hears why it is the lesser one.

    Raises BadInput for what makes no sense, Missing when `mode` insists on namespaces and they are refused.
    """
    if mode not in ("auto", "namespaces", "loopback"):
        raise BadInput(f"cluster mode {mode!r}: give auto, namespaces or loopback")
    if mode != "loopback":
        allowed, reason = namespaces.available()
        if allowed:
            return LocalCluster(
                nodes, version, broker_config, work_dir, java, jars, metadata, controllers,
                outside=outside, disks=disks, clocks=clocks, proxy=proxy, log_dirs=log_dirs,
            )  # fmt: skip
        if mode == "namespaces":
            raise Missing(f"network namespaces are refused here: {reason}; use loopback, without network faults")
        notice(f"network namespaces are refused here: {reason}. Brokers run on loopback ports; no network faults")
    return LoopbackCluster(
        nodes, version, broker_config, work_dir, java, jars, metadata, controllers, proxy,
        clocks=clocks, log_dirs=log_dirs,
    )  # fmt: skip


class LocalCluster(LoopbackCluster):
    """As LoopbackCluster, and satisfies Network, Links, Disks and SlowDisks too.

    outside  brokers get a second listener each, forwarded from a port of 127.0.0.1
    disks    every server's data is on a disk of its own (harness.cluster.local.disks)
    clocks   every server has a clock of its own (harness.cluster.local.clocks)
    """

    isolated: ClassVar = True

    def __init__(
        self,
        nodes: int = 3,
        version: str = versions.DEFAULT,
        broker_config: Mapping[str, str] | None = None,
        work_dir: Path = Path("cluster"),
        java: Java | None = None,
        jars: Jars | None = None,
        metadata: Metadata | None = None,
        controllers: int = 0,
        *,
        outside: bool = False,
        disks: bool = False,
        clocks: bool = False,
        proxy: Proxied = NOBODY,
        log_dirs: int = 1,
    ) -> None:
        super().__init__(
            nodes, version, broker_config, work_dir, java, jars, metadata, controllers, proxy,
            clocks=clocks, log_dirs=log_dirs,
        )  # fmt: skip
        self._outside, self._disks = outside, disks
        self._links = LinkFaults(self._beside, self.ask)
        self._stalls = Stalls(self._beside)
        self.outside_bootstrap = ""  # until `up`

    def _places(self, nodes: int, controllers: int, metadata: Metadata) -> Layout:
        return layout.isolated(nodes, controllers, metadata)

    def _proxy_ports(self) -> wire_faults.TakePorts:
        return lambda: (wire_faults.CLIENT_PORT, wire_faults.PROXY_PORT, wire_faults.PEER_PORT)

    @property
    def files(self) -> NodeFiles:
        """The servers' files; disks of their own are mounted where the servers are, and nowhere else."""
        files = super().files
        return replace(files, root=Path(f"/proc/{self._up().control.pid}/root")) if self._disks else files

    def _prepare(self) -> None:
        if self._disks:
            self.files.make_disks()

    def _reached(self) -> Layout:
        """The layout, its brokers with a second listener each, to which a port of 127.0.0.1 leads."""
        if not self._outside:
            return self.layout
        brokers = self.layout.brokers
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in brokers]
        ports = [listener.getsockname()[1] for listener in listeners]
        argv = [sys.executable, "-m", "harness.cluster.local.port_forward"]
        argv += [f"{place.address}:{FORWARD_PORT}" for place in brokers]
        env = {"PYTHONPATH": namespaces.python_path()}
        log = str(self.work_dir / "forward.log")
        remote_process.spawn(self._up().control, "", argv, env, [listener.fileno() for listener in listeners], log)
        for listener in listeners:
            listener.close()
        self.outside_bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        reached = tuple(
            replace(place, outside_port=port, forward_port=FORWARD_PORT)
            for place, port in zip(brokers, ports, strict=True)
        )
        return replace(self.layout, brokers=reached)

    # --- hosts and their network ----------------------------------------------------------------------

    def host(self, name: str) -> str:
        """The address of a host, which is made unless there is one. Servers are hosts too."""
        state = self._up()
        with self._lock:
            if name not in state.addresses:
                workers = len(state.addresses) - len(self.layout.places)
                state.addresses[name] = f"10.64.{2 + workers // 250}.{1 + workers % 250}"
            address = state.addresses[name]
            if name not in state.made:
                state.control.ask("host", {"name": name, "address": address})
                state.made.add(name)
            return address

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, `at` does not hear `sources`; all are hosts, made if need be."""
        self.host(at)
        self.ask("drop", {"at": at, "sources": [self.host(source) for source in sources]})

    def heal(self) -> None:
        self.ask("heal", {})

    def dropped(self, at: str) -> int:
        return int(str(self.ask("dropped", {"at": at})["packets"]))

    def degrade(self, hosts: Sequence[str], quality: LinkQuality, seed: int) -> None:
        names = dict.fromkeys([*hosts, *self._up().made])
        self._links.degrade({name: self.host(name) for name in names}, hosts, quality, seed)

    def restore(self) -> None:
        self._links.restore()

    def link_counts(self, at: str) -> LinkCounts:
        return self._links.counts(at)

    def round_trip_ms(self, at: str) -> float | None:
        places = [(place.address, place.port) for place in self.layout.brokers if place.name != at]
        return round_trip_ms(lambda: self._socket(at), places)

    def _beside(self, argv: Sequence[str], fds: Sequence[int], queues: Sequence[str] = ()) -> RemoteChild:
        """Start a process where the supervisor is, with netfilter sockets of the networks of `queues`."""
        env, log = {"PYTHONPATH": namespaces.python_path()}, str(self.work_dir / "supervisor.log")
        return remote_process.spawn(self._up().control, "", argv, env, fds, log, queues)

    # --- disks ----------------------------------------------------------------------------------------

    def power_off(self, nodes: Sequence[str]) -> dict[str, int]:
        """Cut the power of nodes, all in one moment; bytes of their logs that were lost, by node.

        Their servers are stopped first, so that none acknowledges in between. Raises ClusterTrouble.
        """
        self._require_disks()
        self.unstall()
        for name in nodes:
            self.pause(name)
        before = self.files.log_bytes(nodes)
        self.files.cut(nodes)
        for name in nodes:
            self.kill(name)
        self.files.mount_again(nodes)
        after = self.files.log_bytes(nodes)
        return {name: before[name] - after[name] for name in nodes}

    def _require_disks(self) -> None:
        """What breaks a disk must never reach the host's."""
        if not self._disks:
            raise ClusterTrouble("the servers have no disks of their own: the cluster was started without")

    def fill(self, nodes: Sequence[str]) -> Mapping[str, int]:
        self._require_disks()
        return self.files.fill(nodes)

    def free(self, nodes: Sequence[str]) -> None:
        self.files.free(nodes)

    def stall(self, node: str, stall_s: float, gap_s: float) -> None:
        self._stalls.begin(node, self.files.data(node), stall_s, gap_s)

    def unstall(self) -> None:
        self._stalls.end()

    def write_ms(self, node: str) -> Sequence[float]:
        return self.files.write_ms(node)
