"""remove-broker: a server is taken out of the cluster as an operator would, and a new one takes its place.

    its replicas move to other nodes, or are given up where there are none
    it is stopped cleanly, and, where the others are enough for new topics, forgotten (UnregisterBroker)
    its data is erased
    at the end an empty server starts in its place, and gets its replicas back

Of several nodes, the first. Its controller's data goes too: the majority has it. Source: KIP-455; Kafka
documentation, Basic Kafka Operations, Decommissioning brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Brokers, Files, Processes
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, Kept, admin, aimed
from nemesis.shared.effects import HEALTHY_TIMEOUT_S, health_s, hit, stop_s, wait_for
from nemesis.shared.placement import Placed, broker_of, move, placed, wait_moved
from nemesis.verb import Verb
from nemesis.verbs.kill import start
from nemesis.verbs.reassign import put_back

DATA: Final = "erase"  # as harness.cluster.local.file_damage names it


def without(row: Placed, broker: int, brokers: list[int]) -> tuple[int, ...]:
    """The replicas of a partition once a broker is gone: another in its place, or one fewer; the same where
    it is the only one."""
    rest = tuple(each for each in row.replicas if each != broker)
    free = [each for each in brokers if each not in row.replicas]
    return (*rest, free[row.number % len(free)]) if free else rest or row.replicas


def _drain(env: Env, rows: Sequence[Placed], broker: int, brokers: list[int], kept: Kept) -> int:
    """Move partitions away from a broker; how many are still there."""
    lists = {row.at: without(row, broker, brokers) for row in rows}
    kept.append({row.at: row.replicas for row in rows})
    move(env, lists)
    late = len(lists) - wait_moved(env, lists, health_s(env))
    return late + sum(broker in replicas for replicas in lists.values())


def _forget(env: Env, broker: int) -> bool:
    """Unregister a broker; False where the cluster has no such thing."""
    try:
        admin(env, "unregister", broker=broker)
    except ClusterTrouble:
        return False
    return True


def _remove(target: str, env: Env, kept: Kept) -> dict[str, Any]:
    assert isinstance(env.cluster, Processes) and isinstance(env.cluster, Files)
    before, names = aimed(env, target)
    brokers = [broker_of(env, node) for node in before.nodes]
    if not names or len(brokers) < 2:
        return hit([], False, why=f"nothing to remove: no {target} just now, or no other node")
    node, broker = names[0], broker_of(env, names[0])
    brokers.remove(broker)
    rows = placed(env, everything=True)
    hosted = [row for row in rows if broker in row.replicas]
    left = _drain(env, hosted, broker, brokers, kept)
    if left:
        return hit([node], False, why=f"{left} partitions could not be moved away")
    kept.append(node)
    env.cluster.stop(node, stop_s(env))
    enough = len(brokers) >= max((len(row.replicas) for row in rows), default=1)
    unregistered = enough and _forget(env, broker)
    erased = env.cluster.damage(node, DATA, env.roles.topic_prefix(), 0)
    return hit([node], bool(erased), moved=len(hosted), unregistered=unregistered, erased=dict(erased))


def _add(env: Env, kept: Any) -> dict[str, Any]:
    if not isinstance(kept, str):
        return put_back(env, kept)
    start(env, [kept])
    # Whatever the patience: its partitions can be put back only when it is there again.
    registered = wait_for(lambda: _registered(env, kept), HEALTHY_TIMEOUT_S)
    return {} if registered else {"not_registered": kept}


def _registered(env: Env, node: str) -> bool:
    return any(number == broker_of(env, node) for number, _ in admin(env, "brokers"))


def _fault(target: str, timing: Timing) -> Fault:
    name = f"remove-broker:{target}"
    begin, end = (
        fault_op("remove-broker", name, target, "start"),
        fault_op("add-broker", name, target, "stop"),
    )
    nemesis = Changed("remove-broker", "add-broker", partial(_remove, target), _add)
    rounds, needs = start_stop(begin, end, timing), (Processes, Files, Brokers)
    return Fault(name, nemesis, rounds, finally_(end), needs, takes_turns=True)


VERB: Final = Verb(
    "take a server out of the cluster, its replicas first, and have an empty one take its place later",
    _fault,
    nodes_min=2,
    short={"remove-broker": "one"},
)
