"""kill: sends SIGKILL to a server or to a client process.

A server is started again later. A client process is replaced at once by one with a new process id; the transaction of
the killed process stays open, and its offsets are not committed.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final

from harness.generator import NOTHING
from harness.model.capabilities import Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, repeated, start_stop
from nemesis.shared.break_and_mend import BrokenClients, BrokenNodes
from nemesis.targets import CLIENT_TARGETS
from nemesis.verb import Verb


def kill(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        env.cluster.kill(node)


def start(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        if not env.cluster.running(node):
            env.cluster.start(node)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"kill:{target}"
    if target in CLIENT_TARGETS:
        once = fault_op("kill", name, target, "")
        return Fault(name, BrokenClients(target, "kill", signal.SIGKILL), repeated(once, timing), NOTHING)
    begin, end = fault_op("kill", name, target, "start"), fault_op("restart", name, target, "stop")
    nemesis = BrokenNodes(target, "kill", "restart", kill, start)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (Processes,), takes_turns=True)


VERB: Final = Verb(
    "kill a server with SIGKILL and start it again later; or kill a client process, which is replaced at once",
    _fault,
    clients=True,
    short={"leader-kill": "leader", "controller-kill": "controller", "client-crash": "client", "client-kill": "client"},
)
