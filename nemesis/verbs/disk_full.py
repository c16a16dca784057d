"""disk-full: a server's disk is filled up; later the space is freed, and the server is started again.

A broker whose only log directory fails shuts down, and other brokers become leaders of its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.model.capabilities import Disks, Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes
from nemesis.shared.effects import effect_s, hit, wait_for, wait_new_leaders
from nemesis.targets import Facts
from nemesis.verb import Verb
from nemesis.verbs.kill import start


def _fill(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Disks)
    return {"filled_bytes": dict(env.cluster.fill(nodes))}


def _free(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Disks)
    env.cluster.free(nodes)
    start(env, nodes)


def _failed(env: Env, before: Facts, nodes: Sequence[str]) -> dict[str, Any]:
    """Waits until a server has shut down because its disk is full.

    Returns the effect: the servers that shut down, and the new leaders.
    """
    cluster = env.cluster
    assert isinstance(cluster, Processes)
    ended = wait_for(lambda: [node for node in nodes if not cluster.running(node)], effect_s(env)) or []
    moved = wait_new_leaders(env, before, ended) if set(nodes) < set(before.nodes) else {}
    return hit(nodes, bool(ended), ended=ended, new_leaders=moved)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"disk-full:{target}"
    begin, end = fault_op("disk-full", name, target, "start"), fault_op("disk-free", name, target, "stop")
    nemesis = BrokenNodes(target, "disk-full", "disk-free", _fill, _free, effect=_failed)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (Processes, Disks), takes_turns=True)


VERB: Final = Verb("fill the disk of a server; the space is freed and the server started again later", _fault)
