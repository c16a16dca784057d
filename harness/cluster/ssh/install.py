"""Installs brokers on the hosts of an ssh cluster, and determines the brokers' addresses."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from harness.cluster.distribution import java
from harness.cluster.distribution.broker_config import Node
from harness.cluster.ssh import preflight
from harness.cluster.ssh.commands_on_hosts import Link
from harness.cluster.ssh.package import Pack
from harness.cluster.ssh.preflight import Ready
from harness.model.errors_and_exit_codes import ClusterTrouble

_ASK_S: Final = 20.0
_UPLOAD_S: Final = 600.0


def install(link: Link, pack: Pack) -> None:
    """Creates the run's folder on a host, and unpacks the broker's files there.

    If the files include this machine's Java, checks that this Java runs on the host. Raises ClusterTrouble.
    """
    who = f"{link.host.name} ({link.host.at})"
    preflight.ask(link, _ASK_S, "make", pack.folder)
    unpacking = f"tar -x -o -f - -C {shlex.quote(pack.folder)}"
    code, output = link.stream(unpacking, _UPLOAD_S, pack.write, _ignore, _nothing)
    if code:
        raise ClusterTrouble(f"{who}: tar: {output or f'exit code {code}'}")
    if not pack.host_java:
        done = link.run(shlex.join([f"{pack.folder}/java/bin/java", "-version"]), _ASK_S)
        if done.code:
            raise ClusterTrouble(
                f"{who} has no Java, and this machine's does not run there "
                f"({(done.err or done.out).strip()[:300]}): install Java {java.MINIMUM} or newer there"
            )


def nodes(ready: Sequence[Ready]) -> tuple[Node, ...]:
    """Returns the brokers with their addresses.

    A broker that has an internal address for other brokers uses a separate port for clients.
    """
    found = []
    for number, each in enumerate(ready, start=1):
        ports, apart = each.host.ports, each.inside != each.address
        found.append(
            Node(
                each.host.name,
                number,
                each.inside,
                ports[0],
                ports[1],
                outside_port=ports[2] if apart else None,
                forward_port=ports[2],
                outside_address=each.address,
            )
        )
    return tuple(found)


def reached(node: Node) -> Node:
    """Returns a copy of the node with the address and port at which this machine reaches it."""
    if node.outside_port is None:
        return node
    return Node(node.name, node.id, node.outside_address, node.outside_port, node.controller_port)


def _ignore(data: bytes) -> None:
    """Ignores tar's output."""


def _nothing() -> None:
    """Does nothing before a retry: unpacking again overwrites the files."""
