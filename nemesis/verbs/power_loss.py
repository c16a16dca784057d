"""power-loss: servers lose power at the same moment, and so lose all unsynced writes; they are started again later.

Kafka acknowledges records that are only in the page caches of the replicas, so even acks=all loses records when all
replicas lose power. The broker setting log.flush.interval.messages=1 prevents that. (The topic setting flush.messages
does not cover the internal topics.) Before the load, the harness syncs the formatted storage. It does not sync the
files of newly created topics, so they may be lost as well, unless the servers have synced them. Evidence: the number of
lost bytes of the logs.
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


VERB: Final = Verb(
    "cut the power of servers, so that every write not yet on disk is lost; the servers are started again later", _fault
)
