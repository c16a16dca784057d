"""remove-broker: a server is decommissioned as an operator would do it, and an empty one replaces it later.

    its replicas move to other nodes, or are removed if no other node is free
    it is stopped cleanly and, if enough brokers remain to create topics, unregistered (UnregisterBroker)
    its data is erased
    later an empty server starts in its place and gets the replicas back

If the target selects several nodes, only the first one is removed. If the server is also a controller, the controller's
data is erased too; the majority of controllers still has this data. Source: KIP-455; Kafka documentation, Basic Kafka
Operations, Decommissioning brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Brokers, Files, Processes
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, UndoSteps, admin, aimed
from nemesis.shared.effects import HEALTHY_TIMEOUT_S, health_s, hit, stop_s, wait_for
from nemesis.shared.placement import Placed, broker_of, move, placed, wait_moved
from nemesis.verb import Verb
from nemesis.verbs.kill import start
from nemesis.verbs.reassign import put_back

DATA: Final = "erase"  # its name in harness.cluster.local.file_damage


def without(row: Placed, broker: int, brokers: list[int]) -> tuple[int, ...]:
    """Returns the replicas of a partition after `broker` is removed.

    One of `brokers` without a replica of the partition takes the place of `broker`. If all of them have replicas, the
    partition has one replica fewer. But if only `broker` has a replica, that replica stays there.
    """
    rest = tuple(each for each in row.replicas if each != broker)
    free = [each for each in brokers if each not in row.replicas]
    return (*rest, free[row.number % len(free)]) if free else rest or row.replicas


def _drain(env: Env, rows: Sequence[Placed], broker: int, brokers: list[int], undo_steps: UndoSteps) -> int:
    """Moves partitions away from a broker. Appends the old replicas to `undo_steps` first.

    Returns how many partitions have not been moved at the time limit, or cannot be moved.
    """
    lists = {row.at: without(row, broker, brokers) for row in rows}
    undo_steps.append({row.at: row.replicas for row in rows})
    move(env, lists)
    late = len(lists) - wait_moved(env, lists, health_s(env))
    return late + sum(broker in replicas for replicas in lists.values())


def _forget(env: Env, broker: int) -> bool:
    """Unregisters a broker. Returns False if the request fails."""
    try:
        admin(env, "unregister", broker=broker)
    except ClusterTrouble:
        return False
    return True


def _remove(target: str, env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    assert isinstance(env.cluster, Processes) and isinstance(env.cluster, Files)
    before, names = aimed(env, target)
    brokers = [broker_of(env, node) for node in before.nodes]
    if not names or len(brokers) < 2:
        return hit([], False, why=f"nothing to remove: there is no {target} at the moment, or no other node")
    node, broker = names[0], broker_of(env, names[0])
    brokers.remove(broker)
    rows = placed(env, everything=True)
    hosted = [row for row in rows if broker in row.replicas]
    not_moved = _drain(env, hosted, broker, brokers, undo_steps)
    if not_moved:
        return hit([node], False, why=f"{not_moved} partitions could not be moved away")
    undo_steps.append(node)
    env.cluster.stop(node, stop_s(env))
    enough = len(brokers) >= max((len(row.replicas) for row in rows), default=1)
    unregistered = enough and _forget(env, broker)
    erased = env.cluster.damage(node, DATA, env.roles.topic_prefix(), 0)
    return hit([node], bool(erased), moved=len(hosted), unregistered=unregistered, erased=dict(erased))


def _add(env: Env, undo_step: Any) -> dict[str, Any]:
    if not isinstance(undo_step, str):
        return put_back(env, undo_step)
    start(env, [undo_step])
    # Always wait: its replicas can be restored only after it has registered.
    registered = wait_for(lambda: _registered(env, undo_step), HEALTHY_TIMEOUT_S)
    return {} if registered else {"not_registered": undo_step}


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
    "move the replicas of a server away, then stop and erase it; an empty server replaces it later",
    _fault,
    nodes_min=2,
    short={"remove-broker": "one"},
)
