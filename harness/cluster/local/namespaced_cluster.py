"""A Kafka cluster on this machine in which each server and each worker host has its own network.

`LocalCluster` gives every host a network namespace and an address, and can partition hosts. On systems that refuse
namespaces, `harness.cluster.local.loopback_cluster` is used instead. `make` chooses between the two.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, get_args

from harness.cluster.distribution import tiered_storage
from harness.cluster.local import capacity, layout, namespaces, remote_process, wire_faults
from harness.cluster.local.disk_stalls import Stalls
from harness.cluster.local.layout import Layout
from harness.cluster.local.link_faults import LinkFaults, round_trip_ms
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.local.node_files import NodeFiles
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.spec import ClusterSpec, NetworkMode
from harness.model.capabilities import Disks, LinkCounts, LinkQuality, SlowDisks
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing

FORWARD_PORT = 9094


def make(spec: ClusterSpec) -> LoopbackCluster:
    """Returns a LocalCluster, or a LoopbackCluster if this system refuses namespaces or `spec.network` is "loopback".

    If the system refuses namespaces and `spec.network` is "auto", tells the user so through `spec.say`. Raises BadInput
    for invalid options. Raises Missing if there is too little memory or disk space, or if the system refuses namespaces
    and `spec.network` is "namespaces".
    """
    if spec.network not in get_args(NetworkMode):
        raise BadInput(f"unknown network mode {spec.network!r}: choose auto, namespaces or loopback")
    capacity.require(len(layout.server_names(spec)), spec.work_dir)
    if spec.tiered:
        spec = _with_tier(spec)
    if spec.network != "loopback":
        allowed, reason = namespaces.available()
        if allowed:
            return LocalCluster(spec)
        if spec.network == "namespaces":
            raise Missing(
                f"network namespaces are refused here: {reason}; use --network loopback, without network faults"
            )
        spec.say(
            f"network namespaces are refused here: {reason}. Brokers run on loopback ports, so no network faults are "
            "possible"
        )
    return LoopbackCluster(spec)


def _with_tier(spec: ClusterSpec) -> ClusterSpec:
    """Returns the spec with the broker settings for tiered storage. Raises Missing."""
    jar = tiered_storage.jar(spec.kafka_version, spec.say)
    settings = tiered_storage.settings(jar, tiered_storage.folder(spec.work_dir), spec.nodes)
    return replace(spec, broker_config={**spec.broker_config, **settings})


class LocalCluster(LoopbackCluster):
    """A LoopbackCluster that also satisfies the protocols Network, Links, Disks and SlowDisks.

    If Disks or SlowDisks is needed, each server's data is on its own disk (harness.cluster.local.disks).
    """

    isolated: ClassVar = True

    def __init__(self, spec: ClusterSpec, jvm_flags: Sequence[str] | None = None) -> None:
        super().__init__(spec, jvm_flags)
        self._disks = bool(spec.needed & {Disks, SlowDisks})
        self._links = LinkFaults(self._spawn_helper, self.ask)
        self._stalls = Stalls(self._spawn_helper)
        self.outside_bootstrap = ""  # until `up`

    def _places(self) -> Layout:
        return layout.isolated(self.spec.nodes, self.spec.controllers, self.spec.metadata_kept, self.spec.migrates)

    def _proxy_ports(self) -> wire_faults.TakePorts:
        return lambda: (wire_faults.CLIENT_PORT, wire_faults.PROXY_PORT, wire_faults.PEER_PORT)

    @property
    def files(self) -> NodeFiles:
        """The servers' files. If servers have their own disks, the disks are mounted only for the supervisor."""
        files = super().files
        return replace(files, root=Path(f"/proc/{self._up().control.pid}/root")) if self._disks else files

    def _prepare(self) -> None:
        if self._disks:
            self.files.make_disks()

    def _reached(self) -> Layout:
        """Returns the layout. If `spec.outside` is set, each broker in it has a second listener.

        Starts a process that forwards connections from ports of 127.0.0.1 to these listeners, one port per broker.
        """
        if not self.spec.outside:
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
        """Returns the address of a host, and creates the host if it does not exist. Servers are hosts, too."""
        state = self._up()
        with self._lock:
            if name not in state.addresses:
                workers = len(state.addresses) - len(self._all.places)
                state.addresses[name] = f"10.64.{2 + workers // 250}.{1 + workers % 250}"
            address = state.addresses[name]
            if name not in state.made:
                state.control.ask("host", {"name": name, "address": address})
                state.made.add(name)
            return address

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """Makes host `at` drop packets from the hosts `sources`, from now on. Creates hosts that do not exist."""
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

    def _spawn_helper(self, argv: Sequence[str], fds: Sequence[int], queues: Sequence[str] = ()) -> RemoteChild:
        """Starts a process in the supervisor's network.

        The process gets a netfilter socket in the network of each host in `queues`.
        """
        env, log = {"PYTHONPATH": namespaces.python_path()}, str(self.work_dir / "supervisor.log")
        return remote_process.spawn(self._up().control, "", argv, env, fds, log, queues)

    # --- disks ----------------------------------------------------------------------------------------

    def power_off(self, nodes: Sequence[str]) -> dict[str, int]:
        """Cuts the power of several nodes at once; returns node -> number of bytes of its log segments that were lost.

        Pauses all servers before the first power cut, so that none of them acknowledges records between two cuts.
        Restarts no server. Raises ClusterTrouble.
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
        """Raises ClusterTrouble if nodes have no disks of their own: no fault may affect this machine's own disk."""
        if not self._disks:
            raise ClusterTrouble("the servers have no disks of their own: the cluster was started without them")

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
