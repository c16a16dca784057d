"""What the verbs share: facts about the cluster now, and waiting for an effect with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from harness.model.errors import ClusterTrouble
from harness.model.protocols import Env, Processes
from nemesis.targets import ROLES, Facts, new_leaders

EFFECT_TIMEOUT_S: Final = 20.0
HEALTHY_TIMEOUT_S: Final = 40.0
ASK_AGAIN_S: Final = 0.2

T = TypeVar("T")


def facts(env: Env, target: str = "") -> Facts:
    """Ask the cluster who leads what, and what a target needs. Raises ClusterTrouble when nobody answers."""
    cluster = env.cluster
    running = tuple(
        node for node in cluster.nodes if not isinstance(cluster, Processes) or cluster.running(node)
    )
    role = env.roles.holders(target) if target in ROLES else ()
    return Facts(running, env.roles.leaders(), env.workers.names(), tuple(role))


def wait_for(ask: Callable[[], T | None], timeout_s: float) -> T | None:
    """What `ask` answers first that is not None or empty; None when the time is up.

    A question that the cluster cannot answer just now is asked again.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = ask()
        except ClusterTrouble:
            answer = None
        if answer:
            return answer
        if time.monotonic() >= deadline:
            return None
        time.sleep(ASK_AGAIN_S)


def wait_new_leaders(env: Env, before: Facts, lost: Sequence[str]) -> Mapping[str, str]:
    """New leaders of every partition that the lost nodes led, or those that moved in time."""
    led = sum(1 for node in before.leaders.values() if node in lost)
    if not led:
        return {}
    moved: dict[str, str] = {}

    def all_moved() -> bool:
        moved.update(new_leaders(before.leaders, env.roles.leaders(), lost))
        return len(moved) >= led

    wait_for(all_moved, EFFECT_TIMEOUT_S)
    return moved


def wait_healthy(env: Env) -> str:
    """Empty when every node is registered and every replica in sync; otherwise what is still wrong."""
    last = ["nobody answered"]

    def healthy() -> bool:
        last[0] = env.roles.unhealthy()
        return not last[0]

    return "" if wait_for(healthy, HEALTHY_TIMEOUT_S) else last[0]


def hit(nodes: Sequence[str], took_effect: bool, **more: Any) -> dict[str, Any]:
    """The value of a completed nemesis op: what was hit, whether it took effect, and how that was seen."""
    return {"nodes": list(nodes), "took_effect": took_effect, **more}
