"""power-loss: the servers end, and every write that was not yet on disk is gone, on all nodes in one moment.

Kafka acknowledges what is in the page caches of the replicas, so acks=all loses records when all of them lose
power; with the broker-wide log.flush.interval.messages=1 it does not. (A topic's flush.messages leaves the
internal topics unflushed.) What was formatted is on disk before the load; the topics' creation is not synced
apart from what the servers do themselves. Evidence: how many bytes of the logs are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.model.capabilities import Disks, Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes
from nemesis.targets import nodes_at_once
from nemesis.verb import Verb
from nemesis.verbs.kill import start


def _cut(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Disks)
    return {"lost_bytes": dict(env.cluster.power_off(nodes))}


def _fault(target: str, timing: Timing) -> Fault:
    name = f"power-loss:{target}"
    begin, end = fault_op("power-loss", name, target, "start"), fault_op("power-on", name, target, "stop")
    nemesis = BrokenNodes(target, "power-loss", "power-on", _cut, start)
    rounds = start_stop(begin, end, timing)
    settings = {"unsynced_copies": nodes_at_once(target)}
    needs = (Processes, Disks)
    return Fault(name, nemesis, rounds, finally_(end), needs, takes_turns=True, settings=settings)


VERB: Final = Verb("cut the power of servers: every write that was not yet on disk is lost", _fault)
