"""restart and rolling-restart: servers, or instances of an application, are stopped in order and started again.

On SIGTERM a server hands over the leadership of its partitions and flushes its logs. A server that is still running
after 60 s is killed; once the load has ended, after 10 s.

`restart` leaves a server down until the fault is stopped. `rolling-restart` restarts the target's servers one after
another, as in a rolling upgrade: the next server is restarted only when the cluster is healthy again.

Client targets are the instances of the application in the app workload. An instance is stopped with the signal that
app.yaml names (SIGTERM by default), and killed if it has not ended within its grace. `restart` leaves the instance down
until the fault is stopped, so the consumer group scales down and up again. `rolling-restart` waits until an instance is
ready before it restarts the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import Processes, servers
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, repeated, start_stop
from nemesis.shared.break_and_mend import BrokenNodes
from nemesis.shared.effects import hit, stopped, wait_healthy
from nemesis.shared.instances import StoppedInstances
from nemesis.shared.one_shot import OnNodes
from nemesis.targets import CLIENT_TARGETS, Facts
from nemesis.verb import Verb
from nemesis.verbs.kill import start


def _stop(env: Env, nodes: Sequence[str]) -> None:
    for node in nodes:
        stopped(env, node)


def _restart(target: str, timing: Timing) -> Fault:
    name = f"restart:{target}"
    begin, end = fault_op("shutdown", name, target, "start"), fault_op("start", name, target, "stop")
    if target in CLIENT_TARGETS:
        instances = StoppedInstances(name, target, "shutdown", "start")
        return Fault(name, instances, start_stop(begin, end, timing), finally_(end))
    nemesis = BrokenNodes(target, "shutdown", "start", _stop, start)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (Processes,), takes_turns=True)


def _one_by_one(env: Env, before: Facts, nodes: Sequence[str]) -> dict[str, Any]:
    """Restarts the nodes one after another. Before the next restart, waits until all nodes are healthy again."""
    assert isinstance(env.cluster, Processes)
    done, killed = list[str](), list[str]()
    for node in nodes:
        killed += [] if stopped(env, node) else [node]
        env.cluster.start(node)
        done.append(node)
        still = wait_healthy(env)
        if still:
            return hit(done, True, unhealthy=still, **_killed_field(killed))
    return hit(done, True, **_killed_field(killed))


def _killed_field(killed: list[str]) -> dict[str, Any]:
    return {"killed": killed} if killed else {}


def _mend(env: Env, nodes: Sequence[str]) -> None:
    start(env, servers(env.cluster))


def _rolling(target: str, timing: Timing) -> Fault:
    name = f"rolling-restart:{target}"
    once = fault_op("rolling-restart", name, target, "")
    if target in CLIENT_TARGETS:
        return Fault(name, StoppedInstances(name, target, "rolling-restart"), repeated(once, timing), NOTHING)
    nemesis = OnNodes(target, "rolling-restart", _one_by_one, _mend)
    return Fault(name, nemesis, repeated(once, timing), NOTHING, (Processes,), takes_turns=True)


RESTART: Final = Verb(
    "stop a server cleanly with SIGTERM and start it again later; or an instance of an application (`--workload app`)",
    _restart,
    clients=True,
    short={"leader-restart": "leader", "instance-restart": "client"},
)
ROLLING: Final = Verb(
    "restart servers cleanly one after another, always waiting until the cluster is healthy again; or the instances of "
    "an application (`--workload app`), always waiting until the instance is ready again",
    _rolling,
    clients=True,
    short={"rolling-restart": "all"},
)
