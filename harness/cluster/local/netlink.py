"""Creates a bridge, hosts on the bridge, and silent one-way packet filters, through pyroute2 (no `ip` or `nft` binary).

All hosts share one subnet, 10.64.0.0/16. The bridge is in a network namespace without a connection to the outside. A
packet filter rule at a host counts and drops the packets that arrive from one address; the sender gets no reply.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyroute2.iproute.linux import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from harness.cluster.local import namespaces

GATEWAY = "10.64.0.1"
_PREFIX = 16
_BRIDGE = "bridge0"
_TABLE = "harness"
_CHAIN = "input"
_QUEUE_TABLE = "harness-queue"
_IPV4 = 2
_BYPASS = 1
_NETFILTER = 12
_DROP = 0
_ACCEPT = 1


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace on the bridge.

    name     name of the host
    address  its IPv4 address
    network  descriptor of the namespace
    """

    name: str
    address: str
    network: int


def make_bridge() -> None:
    """Creates the bridge, with its own address, in the current network namespace, which must be new."""
    with IPRoute() as ip:
        ip.link("set", index=_index(ip, "lo"), state="up")
        ip.link("add", ifname=_BRIDGE, kind="bridge")
        bridge = _index(ip, _BRIDGE)
        ip.addr("add", index=bridge, address=GATEWAY, prefixlen=_PREFIX)
        ip.link("set", index=bridge, state="up")


def make_host(name: str, address: str, number: int) -> Host:
    """Creates a network namespace with one link to the bridge. `number` must be unique, because it names the link."""
    network = namespaces.new_network()
    try:
        with IPRoute() as ip:
            link = f"veth{number}"
            ip.link("add", ifname=link, kind="veth", peer={"ifname": "eth0", "net_ns_fd": network})
            ip.link("set", index=_index(ip, link), master=_index(ip, _BRIDGE), state="up")
        with namespaces.inside(network), IPRoute() as ip:
            ip.link("set", index=_index(ip, "lo"), state="up")
            ip.addr("add", index=_index(ip, "eth0"), address=address, prefixlen=_PREFIX)
            ip.link("set", index=_index(ip, "eth0"), state="up")
    except BaseException:
        os.close(network)
        raise
    return Host(name, address, network)


def drop(host: Host, sources: Iterable[str]) -> None:
    """Makes `host` drop all packets from the addresses `sources` silently, from now on."""
    with namespaces.inside(host.network), NFTables(nfgen_family=_IPV4) as nft:
        nft.table("add", name=_TABLE)
        nft.chain("add", table=_TABLE, name=_CHAIN, hook="input", type="filter", priority=0, policy=_ACCEPT)
        for source in sources:
            expressions = (ipv4addr(src=source), [_counter()], verdict(code=_DROP))
            nft.rule("add", table=_TABLE, chain=_CHAIN, expressions=expressions)


def heal(host: Host) -> None:
    """Removes all drop rules at `host`."""
    _remove(host, _TABLE)


def dropped(host: Host) -> int:
    """Returns how many packets the current rules at `host` have dropped."""
    with namespaces.inside(host.network), NFTables(nfgen_family=_IPV4) as nft:
        return sum(
            int(expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS"))
            for rule in nft.get_rules()
            if rule.get_attr("NFTA_RULE_TABLE") == _TABLE  # the network of a container has other tables too
            for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS") or ()
            if expression.get_attr("NFTA_EXPR_NAME") == "counter"
        )


def hold(host: Host, sources: Iterable[str], number: int) -> None:
    """Makes `host` send all packets from the addresses `sources` through its queue `number`, from now on.

    Packets pass unchanged while no process listens on the queue.
    """
    with namespaces.inside(host.network), NFTables(nfgen_family=_IPV4) as nft:
        nft.table("add", name=_QUEUE_TABLE)
        at = {"table": _QUEUE_TABLE, "chain": _CHAIN}
        nft.chain("add", table=_QUEUE_TABLE, name=_CHAIN, hook="input", type="filter", priority=1, policy=_ACCEPT)
        for source in sources:
            try:
                nft.rule("add", **at, expressions=(ipv4addr(src=source), [_queue(number)]))
            except NetlinkError:
                # A kernel without nft_queue may still have the older target of xtables.
                nft.rule("add", **at, expressions=(ipv4addr(src=source), [_queue_target(number)]))


def release(host: Host) -> None:
    """Makes `host` stop sending packets through queues."""
    _remove(host, _QUEUE_TABLE)


def queue_socket(host: Host) -> int:
    """Returns the descriptor of a netfilter socket in the host's network, for `packet_queue`."""
    with namespaces.inside(host.network):
        return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER).detach()


def _remove(host: Host, name: str) -> None:
    with namespaces.inside(host.network), NFTables(nfgen_family=_IPV4) as nft:
        if any(table.get_attr("NFTA_TABLE_NAME") == name for table in nft.get_tables()):
            nft.table("del", name=name)


def _queue(number: int) -> Any:
    return genex("queue", {"NUM": number, "TOTAL": 1, "FLAGS": _BYPASS})


def _queue_target(number: int) -> Any:
    """Returns the target of a rule that sends packets to a queue: the bytes of struct xt_NFQ_info_v3."""
    info = struct.pack("=HHH2x", number, 1, _BYPASS)
    return genex("target", {"NAME": "NFQUEUE", "REV": 3, "INFO": info})


def _counter() -> Any:
    return genex("counter", {"BYTES": 0, "PACKETS": 0})


def _index(ip: Any, name: str) -> int:
    found: list[int] = ip.link_lookup(ifname=name)
    if not found:
        raise OSError(f"there is no network interface {name}")
    return found[0]
