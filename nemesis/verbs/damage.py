"""Damage to a server's data: the server is killed, files of it are damaged, and the server is started again later.

Kafka should detect the damage and recover from the other replicas. Only files of the run's own topics are damaged, and
the checkpoint files, which all topics share. The fault took effect if a file of at least one server was damaged, even
if that server is back before another one becomes leader.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Files, Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes
from nemesis.shared.effects import effect_s
from nemesis.targets import nodes_at_once
from nemesis.verb import Verb
from nemesis.verbs.kill import start

STALE: Final = "stale-chunks"
REMEMBER: Final = "remember"  # its name in harness.cluster.local.stale_chunks
AGE_S: Final = 3.0  # how old the state is that stale chunks come from


def _damage(kind: str, env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Processes) and isinstance(env.cluster, Files)
    done: dict[str, Any] = {}
    if kind == STALE:
        for node in nodes:
            env.cluster.damage(node, REMEMBER, env.roles.topic_prefix(), 0)
        time.sleep(min(AGE_S, effect_s(env) / 2))
    for node in nodes:
        env.cluster.kill(node)
        done[node] = env.cluster.damage(node, kind, env.roles.topic_prefix(), env.draw.below(1 << 32))
    return {"damage": done, "took_effect": any(done.values())}


def _fault(kind: str, target: str, timing: Timing) -> Fault:
    name = f"{kind}:{target}"
    begin, end = fault_op(kind, name, target, "start"), fault_op("start", name, target, "stop")
    nemesis = BrokenNodes(target, kind, "start", partial(_damage, kind), start)
    rounds = start_stop(begin, end, timing)
    settings = {"damaged_copies": nodes_at_once(target)}
    needs = (Processes, Files)
    return Fault(name, nemesis, rounds, finally_(end), needs, takes_turns=True, settings=settings)


SUMMARIES: Final = {
    "flip-bits": "kill a server and flip a few bits in the largest segment of its logs; it is started again later",
    "truncate-tail": "kill a server and cut off the end of the largest segment of its logs; it is started again later",
    "damage-index": "kill a server and overwrite the beginning of every index of its logs; it is started again later",
    STALE: "copy the files of a server's logs, kill it 3 s later, and put pages of the copy back where they have "
    "changed; it is started again later",
    "delete-checkpoint": "kill a server and delete the checkpoints that limit log recovery; it is started again later",
}
VERBS: Final[Mapping[str, Verb]] = {kind: Verb(summary, partial(_fault, kind)) for kind, summary in SUMMARIES.items()}
