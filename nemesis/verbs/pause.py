"""pause: suspends a server or a client process with SIGSTOP and resumes it later with SIGCONT.

A broker that is paused for longer than its session timeout is fenced, and resumes as a stale leader. A client that is
paused for that long becomes a zombie: when it resumes, other clients have taken over its transaction and its group
membership.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final

from harness.model.capabilities import Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenClients, BrokenNodes
from nemesis.targets import CLIENT_TARGETS
from nemesis.verb import Verb


def pause(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        env.cluster.pause(node)


def resume(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        env.cluster.resume(node)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"pause:{target}"
    begin, end = fault_op("pause", name, target, "start"), fault_op("resume", name, target, "stop")
    if target in CLIENT_TARGETS:
        clients = BrokenClients(target, "pause", signal.SIGSTOP, "resume", signal.SIGCONT)
        return Fault(name, clients, start_stop(begin, end, timing), finally_(end))
    nodes = BrokenNodes(target, "pause", "resume", pause, resume)
    return Fault(name, nodes, start_stop(begin, end, timing), finally_(end), (Processes,), takes_turns=True)


VERB: Final = Verb(
    "suspend a server or a client process with SIGSTOP; it is resumed with SIGCONT later",
    _fault,
    clients=True,
    short={"leader-pause": "leader", "client-pause": "client"},
)
