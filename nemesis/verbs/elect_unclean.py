"""elect-unclean: a server that has fallen behind is elected leader, so the records it has missed are lost.

    choose partitions with the same leader and replicas, and another node X that has replicas of them
    kill X; the other nodes with replicas accept more records
    kill these other nodes, then start X; the partitions have no leader
    elect leaders uncleanly: X leads, and the records that X missed are gone once the other nodes follow it

The fault is undone by starting every server again. If the partitions were reduced to two replicas, their other replicas
are restored, too.

The servers are killed with SIGKILL. A server that shuts down cleanly or is only paused stays eligible to lead if fewer
than `min.insync.replicas` replicas are in sync (KIP-966). The controllers must keep their majority: if killing the
other nodes would end too many controllers, the partitions are reduced to two replicas first. Source: KIP-460; Kafka
documentation, Design.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from harness.model.capabilities import Brokers, Processes
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, UndoSteps, admin, aimed
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.shared.placement import Placed, broker_of, move, node_of, placed, wait_moved
from nemesis.verb import Verb
from nemesis.verbs.kill import start
from nemesis.verbs.reassign import put_back

BEHIND_S: Final = 3.0  # how long the others accept records without X
STARTED_S: Final = 45.0
LEADER: Final = "leader"
VOTERS_MOST: Final = 5


def tolerated(nodes: int) -> int:
    """Returns how many of `nodes` servers may be down while the controllers among them keep a majority."""
    voters = min(nodes, VOTERS_MOST)
    return (voters - 1) // 2


def together(rows: Sequence[Placed], leader: int) -> list[Placed]:
    """Returns the largest group of partitions that have this leader and the same replicas.

    Only partitions with at least two replicas, all of them in sync, are considered.
    """
    mine = [row for row in rows if row.leader == leader and len(row.replicas) >= 2]
    in_sync = [row for row in mine if row.isr == set(row.replicas)]
    most = Counter(frozenset(row.replicas) for row in in_sync).most_common(1)
    return [row for row in in_sync if frozenset(row.replicas) == most[0][0]] if most else []


def _now(env: Env, rows: Sequence[Placed]) -> list[Placed]:
    wanted = {row.at for row in rows}
    return [row for row in placed(env) if row.at in wanted]


def _fall_behind(env: Env, rows: Sequence[Placed], late: str) -> list[Placed]:
    """Kills the node `late`, waits until it is out of sync, and lets the other nodes accept more records.

    Returns the new state of the partitions.
    """
    assert isinstance(env.cluster, Processes)
    broker = broker_of(env, late)
    env.cluster.kill(late)
    wait_for(lambda: all(broker not in row.isr for row in _now(env, rows)), effect_s(env))
    time.sleep(BEHIND_S)
    return _now(env, rows)


def _elected(env: Env, rows: Sequence[Placed], broker: int) -> list[Placed]:
    """Elects unclean leaders until `broker` leads every partition in `rows`, or the time limit is reached.

    Returns the partitions that `broker` leads at the end.
    """
    led: list[Placed] = []

    def all_led() -> bool:
        now = _now(env, rows)
        led[:] = [row for row in now if row.leader == broker]
        orphans = [list(row.at) for row in now if row.leader is None]
        if orphans:
            admin(env, "elect", partitions=orphans, unclean=True)
        return len(led) == len(rows)

    wait_for(all_led, min(STARTED_S, env.effect_s))
    return led


def _unclean(env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    assert isinstance(env.cluster, Processes)
    before, names = aimed(env, LEADER)
    rows = together(placed(env), broker_of(env, names[0])) if names else []
    if not rows or set(before.nodes) != set(env.cluster.nodes):
        return hit([], False, why="no partition has a leader and followers that are all in sync")
    first, copies = names[0], [node_of(env, broker) for broker in sorted(rows[0].replicas)]
    late = env.draw.choice([node for node in copies if node != first])
    rest = [node for node in copies if node != late]
    if len(rest) > tolerated(len(env.cluster.nodes)) and _controllers_among(env):
        rest = [first]
        lists = {row.at: (broker_of(env, first), broker_of(env, late)) for row in rows}
        undo_steps.append({row.at: row.replicas for row in rows})
        move(env, lists)
        if wait_moved(env, lists) < len(lists):
            return hit([], False, why="the reduction to two replicas did not finish in time")
    undo_steps.append([*rest, late])
    in_sync = {row.at: row.isr for row in _fall_behind(env, rows, late)}
    for node in rest:
        env.cluster.kill(node)
    env.cluster.start(late)
    broker = broker_of(env, late)
    led = _elected(env, rows, broker)
    unclean = {row.name: late for row in led if broker not in in_sync.get(row.at, {broker})}
    return hit([late], bool(unclean), new_leaders=unclean, killed=[late, *rest])


def _controllers_among(env: Env) -> bool:
    """Returns whether the controllers run on servers that are also brokers."""
    controllers = env.roles.holders("controller")
    return not controllers or any(node in env.cluster.nodes for node in controllers)


def _mend(env: Env, undo_step: Any) -> dict[str, Any]:
    if isinstance(undo_step, list):
        start(env, undo_step)
        return {}
    return put_back(env, undo_step)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"elect-unclean:{target}"
    begin = fault_op("elect-unclean", name, target, "start")
    end = fault_op("bring-back", name, target, "stop")
    nemesis = Changed("elect-unclean", "bring-back", _unclean, _mend)
    rounds, settings = start_stop(begin, end, timing), {"unclean_election": True}
    needs = (Processes, Brokers)
    return Fault(name, nemesis, rounds, finally_(end), needs, takes_turns=True, settings=settings)


VERB: Final = Verb(
    "kill a follower and, later, the other replicas, then start the follower and elect it uncleanly "
    "(ElectLeaders); every server is started again later",
    _fault,
    nodes=False,
    named={LEADER: "Some of the partitions that the busiest leader leads"},
    nodes_min=3,
    short={"elect-unclean": "leader"},
)
