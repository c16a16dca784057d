"""reassign: partitions lose replicas, and later get them back as fresh copies.

With `some` and `all`, a partition loses the replica of its leader. With `shrink`, it loses all others, so acks=all no
longer promises a second copy.

If there are more nodes than replicas, the replica moves to another node; otherwise it is removed. If there are only two
replicas and no other node, only the order of the replicas changes, because removing one would leave a single replica,
and acks=all would then not guarantee a second copy. Source: KIP-455.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.model.randomness import Draw
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, UndoSteps
from nemesis.shared.effects import health_s, hit
from nemesis.shared.placement import ALL, SOME, Lists, Placed, chosen, move, moves, placed, wait_moved
from nemesis.verb import Verb

COPIES_LEAST: Final = 2
SHRINK: Final = "shrink"


def elsewhere(row: Placed, brokers: Sequence[int], draw: Draw) -> tuple[int, ...]:
    """Returns new replicas for a partition. A broker without a replica takes the leader's place.

    If there is no such broker, the leader is removed; or it is moved to the end of the list if only one replica would
    remain.
    """
    first = row.leader if row.leader in row.replicas else row.replicas[0]
    rest = tuple(broker for broker in row.replicas if broker != first)
    free = [broker for broker in brokers if broker not in row.replicas]
    if free:
        return (draw.choice(free), *rest)
    return rest if len(rest) >= COPIES_LEAST else (*rest, first)


def alone(row: Placed) -> tuple[int, ...]:
    """Returns the replica of a partition's leader, or the first one if the partition has no leader."""
    return (row.leader if row.leader in row.replicas else row.replicas[0],)


def _reassign(target: str, env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    rows = chosen(placed(env), target, env.draw)
    brokers = range(1, len(env.cluster.nodes) + 1)
    new = {row.at: alone(row) if target == SHRINK else elsewhere(row, brokers, env.draw) for row in rows}
    lists = {row.at: new[row.at] for row in rows if new[row.at] != row.replicas}
    if not lists:
        return hit([], False, why="no partition has an alternative placement")
    undo_steps.append({row.at: row.replicas for row in rows if row.at in lists})
    move(env, lists)
    moved = wait_moved(env, lists)
    return hit([], moved > 0, moved=moved, reassigned=moves(env, rows, lists))


def put_back(env: Env, lists: Lists) -> dict[str, Any]:
    """Restores the old replicas (`lists`) of the partitions, and waits until the partitions have them.

    Returns {"not_back": number of partitions without their old replicas at the time limit}, or {}. If `env.healthy_s`
    is 0, returns {} without waiting.
    """
    move(env, lists)
    if env.healthy_s <= 0:
        return {}
    missing = len(lists) - wait_moved(env, lists, health_s(env))
    return {"not_back": missing} if missing else {}


def _fault(target: str, timing: Timing) -> Fault:
    name = f"reassign:{target}"
    begin, end = fault_op("reassign", name, target, "start"), fault_op("reassign-back", name, target, "stop")
    nemesis = Changed("reassign", "reassign-back", partial(_reassign, target), put_back)
    rounds = start_stop(begin, end, timing)
    settings = {"min_insync_replicas": 1} if target == SHRINK else {}
    return Fault(name, nemesis, rounds, finally_(end), (Brokers,), takes_turns=True, settings=settings)


VERB: Final = Verb(
    "move partitions away from the nodes that lead them, or remove their other replicas (AlterPartitionReassignments), "
    "and back later",
    _fault,
    nodes=False,
    named={
        SOME: "A random half of the run's partitions",
        ALL: "Every partition of the run",
        SHRINK: "Every partition of the run, which keeps only the replica of its leader",
    },
    nodes_min=2,
    short={"reassign": "some"},
)
