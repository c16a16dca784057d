"""elect: other replicas become leaders although no server has failed, because preferred leaders are elected.

This happens after maintenance, or when an operator rebalances leaders. The preferred leader of a partition is its first
replica (Kafka documentation, Design, 4.7). If the preferred leader already leads, another in-sync replica is moved to
the front of the replica list, and thereby becomes the preferred leader; then it is elected. Changing the order of the
list moves no data. Source: KIP-460, KIP-455.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, repeated
from nemesis.shared.admin_fault import Requested, admin
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.shared.placement import ALL, SOME, Placed, chosen, move, node_of, placed, wait_moved
from nemesis.verb import Verb


def successor(row: Placed) -> int | None:
    """Returns the broker to elect: the first in-sync replica in the partition's replica list that is not the leader.

    Returns None if there is no such replica, or if the partition has no leader.
    """
    others = [broker for broker in row.replicas if broker in row.isr and broker != row.leader]
    return others[0] if others and row.leader is not None else None


def preferring(row: Placed, broker: int) -> tuple[int, ...]:
    """Returns the partition's replica list with `broker` moved to the front."""
    return (broker, *(each for each in row.replicas if each != broker))


def _elect(target: str, env: Env) -> dict[str, Any]:
    rows = chosen(placed(env), target, env.draw)
    heirs = {row.at: heir for row in rows if (heir := successor(row)) is not None}
    lists = {row.at: preferring(row, heirs[row.at]) for row in rows if row.at in heirs}
    changed = {row.at: lists[row.at] for row in rows if row.at in lists and lists[row.at] != row.replicas}
    move(env, changed)
    wait_moved(env, changed)
    failed: Sequence[Sequence[Any]] = admin(env, "elect", partitions=[list(at) for at in sorted(heirs)])
    errors = sorted({error for _, _, error in failed if error})
    moved: dict[str, str] = {}

    def all_moved() -> bool:
        for row in placed(env):
            if row.leader is not None and heirs.get(row.at) == row.leader:
                moved[row.name] = node_of(env, row.leader)
        return len(moved) >= len(heirs)

    wait_for(all_moved, effect_s(env))
    return hit([], bool(moved), new_leaders=moved, **({"errors": errors} if errors else {}))


def _fault(target: str, timing: Timing) -> Fault:
    name = f"elect:{target}"
    once = fault_op("elect", name, target, "")
    nemesis = Requested("elect", partial(_elect, target))
    return Fault(name, nemesis, repeated(once, timing), NOTHING, (Brokers,), takes_turns=True)


VERB: Final = Verb(
    "move leadership to other replicas by electing preferred leaders (ElectLeaders); not undone",
    _fault,
    nodes=False,
    named={SOME: "A random half of the run's partitions", ALL: "Every partition of the run"},
    nodes_min=2,
    short={"elect": "all"},
)
