"""Packet filters in the network namespaces of containers.

This machine sets up the filters from outside the containers, so images need no tools for it. Entering the network
namespace of a container's process requires root, and the container must run on this machine. Both are checked. As in
`harness.cluster.local.netlink`, a rule drops and counts the packets of one direction, and the sender gets no error.

All clients run on this machine, and have the bridge's address in the containers' network. To make clients drop a node's
packets, a rule in the node's own namespace drops the packets that the node sends to the bridge, because this machine's
packet filters must not be changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pyroute2.iproute.linux import IPRoute
from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from harness.cluster.docker import engine_and_images
from harness.cluster.local import namespaces, netlink
from harness.cluster.local.netlink import Host
from harness.model.capabilities import Network
from harness.model.errors_and_exit_codes import ClusterTrouble

_TABLE: Final = "harness"  # the table that netlink uses: netlink.heal and netlink.dropped then include this chain
_OUTPUT: Final = "output"
_IPV4: Final = 2
_DROP: Final = 0
_ACCEPT: Final = 1


def why_not() -> str:
    """Returns why the networks of containers cannot be entered, and what to do; empty if they can be entered."""
    if not engine_and_images.is_local():
        return (
            "the Docker engine is on another machine, and packets can be dropped only from that machine: "
            "run the harness there"
        )
    if os.geteuid() != 0:
        return "dropping packets in a container's network requires root: run as root"
    return ""


def reasons(needed: frozenset[type]) -> dict[type, str]:
    """Returns {Network: why this machine cannot drop packets in containers} if `needed` contains Network, else {}.

    The text is empty if this machine can.
    """
    return {Network: why_not()} if Network in needed else {}


@contextmanager
def entered(name: str, pid: int, address: str) -> Iterator[Host]:
    """Yields the network namespace of the container `name`. `pid` is the container's process.

    Raises ClusterTrouble if the namespace cannot be entered, or has no interface with this address.
    """
    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ClusterTrouble(f"the network of {name} cannot be entered: {error.strerror}") from error
    try:
        with namespaces.inside(network), IPRoute() as ip:
            if not ip.get_addr(match=lambda row: row.get_attr("IFA_ADDRESS") == address):
                raise ClusterTrouble(
                    f"process {pid} of this machine is not that of {name}: the engine runs its processes on another "
                    "machine"
                )
        yield Host(name, address, network)
    finally:
        os.close(network)


class Filters:
    """The packet filter rules of all nodes. Thread-safe.

    addresses  node -> its address
    machine    address of all clients in the containers' network, i.e. the bridge's address
    pid        function from a node to the pid of its process; 0 if the node is not running
    """

    def __init__(self, addresses: Mapping[str, str], machine: str, pid: Callable[[str], int]) -> None:
        self._addresses, self._machine, self._pid = addresses, machine, pid
        self._rules: list[tuple[str, str, bool]] = []  # node, address, whether the node drops what it receives
        self._lock = threading.Lock()

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """Makes host `at` drop packets from the hosts `sources`. A name that is not a node stands for all clients."""
        wanted = []
        for source in sources:
            if at in self._addresses:
                wanted.append((at, self._addresses.get(source, self._machine), True))
            elif source in self._addresses:
                wanted.append((source, self._machine, False))
        with self._lock:
            for rule in wanted:
                if rule not in self._rules:
                    self._rules.append(rule)
                    self._put(*rule)

    def started(self, node: str) -> None:
        """Restores the rules of a node that has been started: its network namespace is new, and has no rules yet."""
        with self._lock:
            for rule in self._rules:
                if rule[0] == node:
                    self._put(*rule)

    def heal(self) -> None:
        """Removes all rules."""
        with self._lock:
            hit = {node for node, _, _ in self._rules}
            self._rules.clear()
            for node in hit:
                if pid := self._pid(node):
                    with entered(node, pid, self._addresses[node]) as host:
                        netlink.heal(host)

    def dropped(self, at: str) -> int:
        """Returns how many packets the rules of a node have dropped since its last start; 0 for a client."""
        with self._lock:
            pid = self._pid(at) if any(node == at for node, _, _ in self._rules) else 0
            if not pid:
                return 0
            with entered(at, pid, self._addresses[at]) as host:
                return netlink.dropped(host)

    def _put(self, node: str, address: str, at_receiver: bool) -> None:
        pid = self._pid(node)
        if not pid:
            return
        with entered(node, pid, self._addresses[node]) as host:
            if at_receiver:
                netlink.drop(host, [address])
            else:
                _drop_sent(host, address)


def _drop_sent(host: Host, listener: str) -> None:
    """Makes `host` drop the packets that it sends to the address `listener`, from now on."""
    with namespaces.inside(host.network), NFTables(nfgen_family=_IPV4) as nft:
        nft.table("add", name=_TABLE)
        nft.chain("add", table=_TABLE, name=_OUTPUT, hook="output", type="filter", priority=0, policy=_ACCEPT)
        expressions = (
            ipv4addr(dst=listener),
            [genex("counter", {"BYTES": 0, "PACKETS": 0})],
            verdict(code=_DROP),
        )
        nft.rule("add", table=_TABLE, chain=_OUTPUT, expressions=expressions)
