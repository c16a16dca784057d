"""add-partitions: each chosen topic gets one more partition while clients use it. This is never undone.

A topic's partition count can only grow. The run's keys are bound to partitions, so only the writers of a pipeline send
to the new partition. Subscribed consumers are assigned the new partition in a rebalance. Source: KIP-195.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, repeated
from nemesis.shared.admin_fault import Requested, admin
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.shared.placement import ALL, SOME, placed
from nemesis.verb import Verb

MOST: Final = 64  # topics with more partitions than this do not grow


def _add(target: str, env: Env) -> dict[str, Any]:
    sizes = Counter(row.topic for row in placed(env))
    topics = sorted(topic for topic, size in sizes.items() if size <= MOST)
    if target == SOME:
        topics = env.draw.shuffled(topics)[: -(-len(topics) // 2)]
    totals = {topic: sizes[topic] + 1 for topic in sorted(topics)}
    admin(env, "add_partitions", totals=totals)
    grown: dict[str, int] = {}

    def all_grown() -> bool:
        now = Counter(row.topic for row in placed(env) if row.leader is not None)
        grown.update({topic: now[topic] for topic, total in totals.items() if now[topic] >= total})
        return len(grown) == len(totals)

    wait_for(all_grown, effect_s(env))
    return hit([], bool(grown), partitions=grown)


def _fault(target: str, timing: Timing) -> Fault:
    name = f"add-partitions:{target}"
    once = fault_op("add-partitions", name, target, "")
    nemesis = Requested("add-partitions", partial(_add, target))
    return Fault(name, nemesis, repeated(once, timing), NOTHING, (Brokers,))


VERB: Final = Verb(
    "add one partition to topics (CreatePartitions); not undone",
    _fault,
    nodes=False,
    named={SOME: "A random half of the run's topics", ALL: "Every topic of the run"},
    short={"add-partitions": "some"},
)
