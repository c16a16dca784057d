"""Functions for the fault verbs: they query the state of the cluster, or wait for an effect, up to a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from harness.model.capabilities import STOP_S, Processes, offers, servers
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env
from nemesis.targets import ROLES, Facts, new_leaders

EFFECT_TIMEOUT_S: Final = 20.0
HEALTHY_TIMEOUT_S: Final = 40.0
STOP_LEAST_S: Final = 10.0
ASK_AGAIN_S: Final = 0.2
POINT_MAX_MS: Final = 60_000

T = TypeVar("T")


def facts(env: Env, target: str = "") -> Facts:
    """Asks the cluster for the partition leaders and, if the target is a role, for the nodes that have this role.

    Raises ClusterTrouble if no broker answers.
    """
    cluster = env.cluster
    running = [name for name in servers(cluster) if not offers(cluster, Processes) or cluster.running(name)]
    nodes = tuple(name for name in running if name in cluster.nodes)
    non_brokers = tuple(name for name in running if name not in cluster.nodes)
    role = env.roles.holders(target) if target in ROLES else ()
    return Facts(nodes, env.roles.leaders(), env.workers.names(), tuple(role), non_brokers, env.sends)


def wait_for(ask: Callable[[], T | None], timeout_s: float) -> T | None:
    """Calls `ask` until it returns a truthy value, and returns this value. Returns None after `timeout_s` seconds.

    If `ask` raises ClusterTrouble, it is called again.
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


def effect_s(env: Env) -> float:
    """Returns the maximum number of seconds to wait until the fault has an effect."""
    return min(EFFECT_TIMEOUT_S, env.effect_s)


def wait_new_leaders(env: Env, before: Facts, lost: Sequence[str]) -> Mapping[str, str]:
    """Waits until every partition that was led by one of the lost nodes has a new leader, or the time limit is reached.

    Returns "topic-partition" -> new leader, for the partitions that then have a new leader.
    """
    led = sum(1 for node in before.leaders.values() if node in lost)
    if not led:
        return {}
    moved: dict[str, str] = {}

    def all_moved() -> bool:
        moved.update(new_leaders(before.leaders, env.roles.leaders(), lost))
        return len(moved) >= led

    wait_for(all_moved, effect_s(env))
    return moved


def leaderless(env: Env, before: Facts, lost: Sequence[str]) -> int:
    """Returns how many of the partitions that were led by the lost nodes have no leader now."""
    try:
        now = env.roles.leaders()
    except ClusterTrouble:
        return 0
    return sum(1 for at, node in before.leaders.items() if node in lost and at in now and now[at] is None)


def after_point(env: Env) -> dict[str, Any]:
    """Returns {"after_ms": ms since the point of the protocol at which a trigger started the fault}.

    Returns {} if no trigger did, or its time is unknown. A server whose clock has been set reports no usable time.
    """
    late_ms = (time.time() - env.point_s) * 1000 if env.point_s is not None else -1.0
    return {"after_ms": round(late_ms, 1)} if 0 <= late_ms < POINT_MAX_MS else {}


def health_s(env: Env) -> float:
    """Returns the maximum number of seconds to wait for a healthy cluster."""
    return min(HEALTHY_TIMEOUT_S, env.healthy_s, max(0.0, env.until_s - time.monotonic()))


def stop_s(env: Env) -> float:
    """Returns the maximum number of seconds that a clean shutdown of a server may take."""
    return min(STOP_S, max(env.until_s - time.monotonic(), STOP_LEAST_S))


def stopped(env: Env, node: str) -> bool:
    """Stops a server cleanly. If this takes too long, kills the server, as init systems do, and returns False."""
    assert isinstance(env.cluster, Processes)
    try:
        env.cluster.stop(node, stop_s(env))
    except ClusterTrouble:
        env.cluster.kill(node)
        return False
    return True


def wait_healthy(env: Env) -> str:
    """Waits until every node is registered and every replica is in sync. Returns what is still wrong, or "".

    If `env.healthy_s` is 0, returns "" immediately: other faults may still be on, and keep the cluster unhealthy.
    """
    if env.healthy_s <= 0:
        return ""
    last = ["no broker answered"]

    def healthy() -> bool:
        last[0] = env.roles.unhealthy()
        return not last[0]

    return "" if wait_for(healthy, health_s(env)) else last[0]


def heal(env: Env) -> tuple[str, list[str]]:
    """Starts servers that are down and waits for a healthy cluster. Called after every fault has been undone.

    Returns what is still wrong ("" if nothing), and the names of the servers that were started. A server may be down
    because it exited by itself, or because it got SIGTERM while it was paused, and ended once it was resumed.
    """
    started: list[str] = []
    last = ["no broker answered"]
    startable = env.cluster if offers(env.cluster, Processes) else None
    names = servers(env.cluster) if startable else ()

    def healthy() -> bool:
        for name in names:
            if startable and name not in started and not startable.running(name):
                started.append(name)
                startable.start(name)
        last[0] = env.roles.unhealthy()
        return not last[0]

    return "" if wait_for(healthy, health_s(env)) else last[0], started


def hit(nodes: Sequence[str], took_effect: bool, **more: Any) -> dict[str, Any]:
    """Returns the value of a completed nemesis op: hit nodes, whether the fault took effect, and further fields."""
    return {"nodes": list(nodes), "took_effect": took_effect, **more}
