"""remove-controller and add-controller: the voters of the metadata quorum change while it works (KIP-853).

    remove-controller  a voter leaves the quorum and goes on as an observer; it becomes a voter again later
    add-controller     a spare controller, which follows the log, becomes a voter; it leaves the quorum later

Both need dedicated controllers and Kafka 3.9 or later. The cluster is then formatted with kraft.version 1. With an even
number of controllers, the last one is a spare. Source: KIP-853; Kafka documentation, KRaft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Voters, servers
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, UndoSteps
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.verb import Verb

ACTIVE: Final = "active"
ONE: Final = "one"
SPARE: Final = "spare"
BACK_S: Final = 20.0  # a controller that joins must first have caught up with the log
ADD: Final = "add-controller"
REMOVE: Final = "remove-controller"


def leaving(target: str, voters: Sequence[str], active: Sequence[str], env: Env) -> str | None:
    """Returns the voter to remove; None if there is none, or if it is the last one."""
    chosen = [name for name in voters if name in active] if target == ACTIVE else list(voters)
    return env.draw.choice(chosen) if chosen and len(voters) > 1 else None


def joining(voters: Sequence[str], controllers: Sequence[str]) -> str | None:
    """Returns the controller to add; None if every controller is a voter."""
    return next((name for name in controllers if name not in voters), None)


def _change(do: str, env: Env, name: str) -> str:
    """Adds or removes a voter, repeatedly until the quorum's leader says that this is so.

    Returns the last error; "" if it is so.
    """
    assert isinstance(env.cluster, Voters)
    cluster, last = env.cluster, ["the quorum has no leader"]
    patience_s = max(effect_s(env), BACK_S)

    def changed() -> bool:
        if (name in cluster.voters()) == (do == ADD):
            return True
        try:
            (cluster.add_voter if do == ADD else cluster.remove_voter)(name)
        except ClusterTrouble as error:
            last[0] = str(error)
        return False

    return "" if wait_for(changed, patience_s) else last[0]


def _begin(do: str, target: str, env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    assert isinstance(env.cluster, Voters)
    cluster = env.cluster
    voters = wait_for(lambda: list(cluster.voters()), effect_s(env)) or []
    controllers = [name for name in servers(cluster) if name not in cluster.nodes]
    name = joining(voters, controllers) if do == ADD else leaving(target, voters, env.roles.holders("controller"), env)
    if name is None or not voters:
        return hit([], False, why=f"there is no {target} controller for {do}; the voters are {', '.join(voters)}")
    undo_steps.append((REMOVE if do == ADD else ADD, name))
    error = _change(do, env, name)
    now = wait_for(lambda: list(cluster.voters()), effect_s(env)) or []
    return hit([name], not error, voters=now, **({"why": error} if error else {}))


def _end(env: Env, undo_step: Any) -> Mapping[str, Any]:
    do, name = undo_step
    error = _change(do, env, name)
    return {"not_back": [name], "why": error} if error else {}


def _fault(do: str, target: str, timing: Timing) -> Fault:
    name, back = f"{do}:{target}", REMOVE if do == ADD else ADD
    begin, end = fault_op(do, name, target, "start"), fault_op(back, name, target, "stop")
    nemesis = Changed(do, back, partial(_begin, do, target), _end)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Voters,), takes_turns=True)


VERBS: Final[Mapping[str, Verb]] = {
    REMOVE: Verb(
        "remove a voter from the metadata quorum; it is an observer until it becomes a voter again",
        partial(_fault, REMOVE),
        nodes=False,
        named={ACTIVE: "The active controller", ONE: "A random voter"},
        short={REMOVE: ONE},
    ),
    ADD: Verb(
        "make a spare controller a voter of the metadata quorum; it leaves the quorum later",
        partial(_fault, ADD),
        nodes=False,
        named={SPARE: "A controller that is not a voter: the last one of an even number (`--controllers 4`)"},
        short={ADD: SPARE},
    ),
}
