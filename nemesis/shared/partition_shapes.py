"""The shapes of network partitions: which host drops packets from which other hosts. Pure functions.

Packet filters act at the receiving host. Each function takes all servers, the servers (or clients) that the fault hits,
and the client hosts or the controllers. It returns the packet filters: (host, the hosts whose packets that host drops).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

# (receiver, senders whose packets it drops)
Cuts: TypeAlias = list[tuple[str, list[str]]]


def _between(left: Sequence[str], right: Sequence[str]) -> Cuts:
    """Cuts the two sides off from each other, in both directions."""
    cuts = [(at, [node for node in right if node != at]) for at in left]
    cuts += [(at, [node for node in left if node != at]) for at in right if at not in left]
    return [(at, silent) for at, silent in cuts if silent]


def isolate(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Cuts the hit servers off from all other servers and from each other. Clients still reach them."""
    cuts = [(at, [node for node in nodes if node != at and (at in hit or node in hit)]) for at in nodes]
    return [(at, silent) for at, silent in cuts if silent]


def isolate_in(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Makes the hit servers drop all packets from other servers. The servers not hit still receive from them."""
    return [(at, [node for node in nodes if node != at]) for at in hit]


def isolate_out(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Makes all servers drop the packets from the hit servers. The hit servers still receive from servers not hit."""
    return [(at, silent) for at in nodes if (silent := [node for node in hit if node != at])]


def split(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Puts the hit servers on one side and all others on the other side. Servers on the same side stay connected."""
    return _between(list(hit), [node for node in nodes if node not in hit])


def ring(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Lets every server receive packets from a different majority of the servers (Jepsen's majorities ring).

    `hit` is ignored.
    """
    size = len(nodes) // 2 + 1
    cuts = []
    for first in range(len(nodes)):
        senders = [nodes[(first + step) % len(nodes)] for step in range(size)]
        cuts.append((senders[size // 2], [node for node in nodes if node not in senders]))
    return [(at, silent) for at, silent in cuts if silent]


def from_clients(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Cuts the hit servers off from every client. The servers stay connected to each other."""
    return _between(list(hit), list(clients))


def from_controller(nodes: Sequence[str], hit: Sequence[str], controllers: Sequence[str]) -> Cuts:
    """Cuts the hit servers off from the active controller. All other servers stay connected to both sides.

    If the active controller is the only server hit, another server is cut off from the controller.
    """
    far = [node for node in hit if node not in controllers]
    return _between(far or [node for node in nodes if node not in controllers][:1], list(controllers))


def to_clients(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Drops packets from the hit servers to clients. Packets from clients to the servers still arrive."""
    return [(client, list(hit)) for client in clients]


def from_servers(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Cuts the hit client processes off from every server."""
    return _between(list(hit), list(nodes))


Shape = Callable[[Sequence[str], Sequence[str], Sequence[str]], Cuts]
ALL: Final[dict[str, Shape]] = {
    "isolate": isolate,
    "isolate-in": isolate_in,
    "isolate-out": isolate_out,
    "split": split,
    "ring": ring,
    "cut-clients": from_clients,
    "lose-acks": to_clients,
    "cut-controller": from_controller,
}
