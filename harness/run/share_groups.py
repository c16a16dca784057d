"""Prepares a cluster for the share groups of a run: checks that it has them, and sets the groups' configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.plan import share
from harness.plan.test_plan import TestPlan
from harness.protocol.share_groups import dead_letter_topic

FEATURE: Final = "share.version"
DEAD_LETTERS_LEVEL: Final = 2  # share.version with dead letter queues (KIP-1191)
ANSWER_S: Final = 10.0
CREATE_S: Final = 30.0


def prepare(plan: TestPlan, call: Callable[..., Any]) -> None:
    """Sets the configuration of the run's share groups, if it has any. Called before the load.

    call  makes a call to the admin worker

    Raises BadInput if the cluster has no share groups, and ClusterTrouble.
    """
    groups = share.groups(plan)
    if not groups:
        return
    levels = call("features", ANSWER_S + 2.0, timeout_s=ANSWER_S) or {}
    if not levels.get(FEATURE):
        raise BadInput(
            f"--workload share: the feature {FEATURE} of the cluster is not finalized; enable it, for example with "
            f"kafka-features.sh upgrade --feature {FEATURE}=1, or use Kafka 4.2 or later"
        )
    if plan.share_dead_letters:
        _add_dead_letter_queues(plan, groups, levels[FEATURE], call)
    call(
        "configure_groups",
        3 * ANSWER_S,
        groups=groups,
        changes=share.group_config(plan),
        timeout_s=ANSWER_S,
    )


def _add_dead_letter_queues(plan: TestPlan, groups: list[str], level: int, call: Callable[..., Any]) -> None:
    """Creates a topic for each group's dead letters, and makes the topic the group's queue."""
    if level < DEAD_LETTERS_LEVEL:
        raise BadInput(f"--share-dead-letters: {FEATURE} is {level} in the cluster; dead letter queues need 2")
    call(
        "create_topics",
        CREATE_S + 2.0,
        names=[dead_letter_topic(group) for group in groups],
        partitions=plan.partitions,
        replication=min(3, plan.nodes),
        config={"errors.deadletterqueue.group.enable": "true"},
        timeout_s=CREATE_S,
    )
    for group in groups:
        changes = {"errors.deadletterqueue.topic.name": dead_letter_topic(group)}
        call("configure_groups", 3 * ANSWER_S, groups=[group], changes=changes, timeout_s=ANSWER_S)
