"""isolate: cut a node off from the other brokers, both ways, and leave it reachable for clients.

A leader that clients can still reach goes on acknowledging what it cannot replicate: that is what loses
acks=1 records. Packets are dropped at the receiving end, silently. Evidence: how many were dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.model.protocols import Env, Fault, Network
from nemesis.broken import BrokenNodes
from nemesis.schedule import Timing, fault_op, finally_, start_stop

SUMMARY: Final = "drop all packets between a server and the other servers; clients still reach it"


def isolate(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Network)
    for at in env.cluster.nodes:
        silent = [node for node in env.cluster.nodes if node != at and (at in nodes or node in nodes)]
        if silent:
            env.cluster.drop(at, silent)


def heal(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Network)
    env.cluster.heal()


def dropped(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    """Packets that never arrived, per node."""
    assert isinstance(env.cluster, Network)
    counted = {node: env.cluster.dropped(node) for node in env.cluster.nodes}
    return {"dropped_packets": counted} if any(counted.values()) else {}


def fault(target: str, timing: Timing) -> Fault:
    """isolate:TARGET."""
    name = f"isolate:{target}"
    begin, end = fault_op("isolate", name, target, "start"), fault_op("heal-network", name, target, "stop")
    nemesis = BrokenNodes(target, "isolate", "heal-network", isolate, heal, dropped)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Network,), takes_turns=True)
