"""Prepares a cluster for the share groups of a run: checks that it has them, and sets the groups' configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.plan import share
from harness.plan.test_plan import TestPlan

FEATURE: Final = "share.version"
ANSWER_S: Final = 10.0


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
    call(
        "configure_groups",
        3 * ANSWER_S,
        groups=groups,
        changes=share.group_config(plan),
        timeout_s=ANSWER_S,
    )
