"""rebalance: an extra consumer joins and leaves the run's consumer group every second, until the fault is stopped.

Each join and each leave makes the group rebalance (Kafka documentation, Design, 4.5 The Consumer). The extra consumer
commits nothing. The fault needs subscribed consumers. Evidence: how often the extra consumer was assigned partitions
while other members kept some of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import CONSUMER_GROUP, Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, UndoSteps, admin
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.verb import Verb

PERIOD_S: Final = 1.0
OFTEN: Final = 2  # the fault has taken effect after this many rebalances with other members (a storm)
GROUP: Final = "group"


def _storm(env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    undo_steps.append("storm")
    admin(env, "storm_start", period_s=PERIOD_S)
    seen: dict[str, Any] = {}

    def stormed() -> bool:
        seen.update(admin(env, "storm_seen"))
        return _is_storm(seen)

    wait_for(stormed, effect_s(env))
    return hit([], _is_storm(seen), joined=seen.get("joined", 0))


def _is_storm(seen: Mapping[str, Any]) -> bool:
    return int(seen.get("shared", 0)) >= OFTEN


def _calm(env: Env, undo_step: Any) -> Mapping[str, Any]:
    seen: dict[str, Any] = admin(env, "storm_stop")
    return {"took_effect": _is_storm(seen), **seen}


def _fault(target: str, timing: Timing) -> Fault:
    name = f"rebalance:{target}"
    begin, end = fault_op("rebalance", name, target, "start"), fault_op("calm", name, target, "stop")
    nemesis = Changed("rebalance", "calm", _storm, _calm, await_health=False)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (Brokers,), acts_on=frozenset({CONSUMER_GROUP}))


VERB: Final = Verb(
    "let an extra consumer join and leave the consumer group every second, until the fault is stopped",
    _fault,
    nodes=False,
    named={GROUP: "The run's consumer group; consumers must subscribe (`--sub-via subscribe`)"},
    short={"rebalance": "group"},
)
