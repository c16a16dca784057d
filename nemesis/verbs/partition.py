"""Network partitions: the receiving host drops packets, without an error to the sender. The network is healed later.

A partition can affect one direction only.

A leader that is cut off from the other servers but not from clients keeps acknowledging records that it cannot
replicate. This is how acks=1 records get lost. Evidence: the number of packets dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Network, OwnAddresses, servers
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared import partition_shapes
from nemesis.shared.break_and_mend import BrokenNodes, Effect, moved_controller, moved_leaders
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.shared.partition_shapes import Shape
from nemesis.targets import CLIENT_TARGETS, Facts, all_clients
from nemesis.verb import Verb

HEAL: Final = "heal-network"


def _cut(shape: Shape, env: Env, names: Sequence[str]) -> None:
    assert isinstance(env.cluster, Network)
    nodes = list(servers(env.cluster))
    if shape is partition_shapes.ring:
        nodes = env.draw.shuffled(nodes)
    others = env.roles.holders("controller") if shape is partition_shapes.from_controller else env.workers.names()
    for at, silent in shape(nodes, names, others):
        env.cluster.drop(at, silent)


def _heal(env: Env, names: Sequence[str]) -> None:
    assert isinstance(env.cluster, Network)
    env.cluster.heal()


def dropped(env: Env, names: Sequence[str]) -> Mapping[str, Any]:
    """Returns the number of packets that each host has dropped; no numbers if no packet was dropped."""
    assert isinstance(env.cluster, Network)
    hosts = dict.fromkeys([*servers(env.cluster), *env.workers.names(), *names])
    counted = {host: count for host in hosts if (count := env.cluster.dropped(host))}
    return {"dropped_packets": counted} if counted else {}


def cut_off(env: Env, before: Facts, names: Sequence[str]) -> dict[str, Any]:
    """Returns the effect of isolating nodes: whether other nodes have become leaders of the partitions that they led.

    If every node is isolated, no other node can become leader. Then the number of dropped packets decides at the end of
    the fault whether it took effect. For servers that are not brokers, the effect is that packets have been dropped and
    that another server is the controller.
    """
    if any(name in before.non_brokers for name in names):
        moved, lost = moved_controller(env, names), lost_packets(env, before, names)
        return {**moved, "took_effect": moved["took_effect"] and lost["took_effect"]}
    return hit(names, False) if set(names) >= set(before.nodes) else moved_leaders(env, before, names)


def lost_packets(env: Env, before: Facts, names: Sequence[str]) -> dict[str, Any]:
    """Returns the effect of a network partition that need not move leaders: whether packets were dropped."""
    return hit(names, bool(wait_for(lambda: dict(dropped(env, names)), effect_s(env))))


def _fault(verb: str, shape: Shape, effect: Effect, target: str, timing: Timing) -> Fault:
    name = f"{verb}:{target}"
    begin, end = fault_op(verb, name, target, "start"), fault_op(HEAL, name, target, "stop")
    needs: tuple[type, ...] = (Network,)
    if target in CLIENT_TARGETS:
        shape, effect = partition_shapes.from_servers, lost_packets
        needs = (Network,) if CLIENT_TARGETS[target] is all_clients else (Network, OwnAddresses)
    nemesis = BrokenNodes(target, verb, HEAL, partial(_cut, shape), _heal, dropped, effect)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), needs, takes_turns=True)


def _verb(
    name: str, effect: Effect, summary: str, clients: bool = False, short: Mapping[str, str] | None = None
) -> Verb:
    fault = partial(_fault, name, partition_shapes.ALL[name], effect)
    return Verb(summary, fault, clients=clients, nodes_min=2, short=short or {})


VERBS: Final[Mapping[str, Verb]] = {
    "isolate": _verb(
        "isolate",
        cut_off,
        "drop all packets between a server and the other servers, while clients still reach it; or between a client "
        "process and every server; the network is healed later",
        clients=True,
        short={"leader-isolate": "leader", "client-isolate": "client"},
    ),
    "isolate-in": _verb(
        "isolate-in",
        lost_packets,
        "drop all packets that a server gets from the other servers, but not those that it sends; the network is "
        "healed later",
    ),
    "isolate-out": _verb(
        "isolate-out",
        lost_packets,
        "drop all packets that a server sends to the other servers, but not those that it gets; the network is "
        "healed later",
    ),
    "split": _verb(
        "split",
        lost_packets,
        "cut the servers that are hit off from all other servers, while each side stays connected; the network is "
        "healed later",
        short={"halves": "minority"},
    ),
    "ring": _verb(
        "ring",
        lost_packets,
        "let every server receive packets from a different majority of the servers (the target is ignored); the "
        "network is healed later",
        short={"majorities-ring": "all"},
    ),
    "cut-clients": _verb(
        "cut-clients",
        lost_packets,
        "drop all packets between a server and every client process; the network is healed later",
    ),
    "lose-acks": _verb(
        "lose-acks",
        lost_packets,
        "drop all packets from a server to every client process, so that records are stored but not acknowledged; the "
        "network is healed later",
    ),
    "cut-controller": _verb(
        "cut-controller",
        lost_packets,
        "drop all packets between a server and the active controller, while the other servers reach both; the network "
        "is healed later",
    ),
}
