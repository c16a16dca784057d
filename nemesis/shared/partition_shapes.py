"""Who does not hear whom: the shapes of network partitions, as packet filters at the receiving end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

# (receiver, senders that it does not hear)
Cuts: TypeAlias = list[tuple[str, list[str]]]


def _between(left: Sequence[str], right: Sequence[str]) -> Cuts:
    """Neither side hears the other."""
    cuts = [(at, [node for node in right if node != at]) for at in left]
    cuts += [(at, [node for node in left if node != at]) for at in right if at not in left]
    return [(at, silent) for at, silent in cuts if silent]


def isolate(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Those hit and every other server, each other too; clients still reach them."""
    cuts = [(at, [node for node in nodes if node != at and (at in hit or node in hit)]) for at in nodes]
    return [(at, silent) for at, silent in cuts if silent]


def isolate_in(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Those hit hear no other server; the others hear them."""
    return [(at, [node for node in nodes if node != at]) for at in hit]


def isolate_out(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """No other server hears those hit; they hear the others."""
    return [(at, silent) for at in nodes if (silent := [node for node in hit if node != at])]


def split(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Those hit on one side, the other servers on the other; within a side all is well."""
    return _between(list(hit), [node for node in nodes if node not in hit])


def ring(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Every server hears a majority, and no two the same one (Jepsen's majorities ring)."""
    size = len(nodes) // 2 + 1
    cuts = []
    for first in range(len(nodes)):
        heard = [nodes[(first + step) % len(nodes)] for step in range(size)]
        cuts.append((heard[size // 2], [node for node in nodes if node not in heard]))
    return [(at, silent) for at, silent in cuts if silent]


def from_clients(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """Those hit and every client; the servers hear each other."""
    return _between(list(hit), list(clients))


def from_controller(nodes: Sequence[str], hit: Sequence[str], controllers: Sequence[str]) -> Cuts:
    """Those hit and the server that leads the controllers; the others hear both. Where that is the one that
    is hit, another server and it."""
    far = [node for node in hit if node not in controllers]
    return _between(far or [node for node in nodes if node not in controllers][:1], list(controllers))


def to_clients(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """No client hears those hit; they hear the clients."""
    return [(client, list(hit)) for client in clients]


def from_servers(nodes: Sequence[str], hit: Sequence[str], clients: Sequence[str]) -> Cuts:
    """The client processes hit and every server."""
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
