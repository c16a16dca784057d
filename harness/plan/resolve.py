"""Resolves a plan once: makes its faults, schedule and workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.model.check_options import CheckOptions
from harness.model.fault_and_generator_protocols import Fault, Workload
from harness.plan import app, derived, pipeline, schedule_rules, settings_in_force, share, upgrade
from harness.plan.schedule import entries
from harness.plan.test_plan import TestPlan
from harness.yaml_data import Where
from nemesis import table as nemeses
from nemesis.recovery import run_steps
from nemesis.schedule import triggers
from nemesis.schedule.entry import Entry
from nemesis.schedule.timing import Timing
from workloads.table import WORKLOADS

METADATA = "metadata"  # the check of the metadata log


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan with the objects that were made from it.

    plan      the plan, with canonical names of faults and a checked schedule
    timing    when the faults of --nemesis start and end
    faults    the faults of --nemesis, those of the schedule, and those whose operations the workload generates
    schedule  the entries of the schedule
    workload  the workload that the plan names
    needed    the capabilities of the cluster that the faults and the triggers of the schedule need
    """

    plan: TestPlan
    timing: Timing
    faults: tuple[Fault, ...]
    schedule: tuple[Entry, ...]
    workload: Workload
    needed: frozenset[type]

    def update(self, **changes: Any) -> ResolvedPlan:
        """Returns a copy in which some fields of the plan are changed.

        Only fields that do not affect the other attributes may be changed: names, times, versions.
        """
        return replace(self, plan=self.plan.model_copy(update=changes))


def resolve(plan: TestPlan, servers: Sequence[str], where: Where | None = None) -> ResolvedPlan:
    """Resolves a plan. Raises BadInput if a fault or the schedule does not fit the plan.

    plan     the plan; for a cluster that already exists, as returned by `harness.run.attached_cluster.settled`
    servers  names of the cluster's servers
    where    see `schedule_rules.checked`
    """
    names = nemeses.canonical(",".join(plan.nemesis), servers)
    lines = schedule_rules.checked(plan, servers, names, where)
    plan = plan.model_copy(update={"nemesis": names, "schedule": lines})
    row = WORKLOADS[plan.workload]
    options = row.options_of(_by_name(plan))
    workload = row.make(options)
    timing = Timing(plan.nemesis_first_s, plan.nemesis_interval_s)
    faults = nemeses.faults((*names, *derived.scheduled(plan)), timing)
    if row.acts_on is not None:
        acts_on = row.acts_on(options)
        faults = (*faults, run_steps.fault("disks" in acts_on, "network" in acts_on))
    schedule = entries(lines)
    return ResolvedPlan(
        plan=plan,
        timing=timing,
        faults=faults,
        schedule=schedule,
        workload=workload,
        needed=nemeses.needed(faults) | triggers.needed(schedule),
    )


def judged_by(plan: TestPlan, answer: Mapping[str, Any] | None = None) -> CheckOptions:
    """Returns the options for checking a run's history.

    They contain the settings that the cluster used. If a fault of the run changes a setting, the weaker value counts.
    Names of faults that no longer exist are accepted.

    answer  the settings that the cluster reported: see `settings_in_force`; None if there are none
    """
    options = derived.check_options(plan)
    in_force = settings_in_force.settled(options.settings, answer)
    settings = nemeses.weakened(in_force, options.expected_faults, derived.scheduled(plan))
    checks = workload_of(plan).checks
    if plan.upgrade_to or upgrade.migrates(plan):
        checks = (*checks, "upgrade")
        # The cluster reported its features at the end; before the upgrade was final, there were none of the new ones.
        settings = replace(settings, eligible_leader_replicas=False)
    if derived.metadata_judged(plan):
        checks = (*checks, METADATA)
    return replace(options, checks=checks, settings=settings)


def workload_of(plan: TestPlan) -> Workload:
    """Returns the workload that a plan names."""
    row = WORKLOADS[plan.workload]
    return row.make(row.options_of(_by_name(plan)))


def _by_name(plan: TestPlan) -> Mapping[str, Any]:
    """Returns name -> value for the options that workloads may have.

    An option is a field of the plan, or derived from fields.
    """
    values = {name: getattr(plan, name) for name in TestPlan.model_fields}
    return {
        **values,
        "keys": plan.key_count,
        "max_txn_length": derived.txn_length_max(plan),
        **pipeline.workload_options(plan),
        **app.workload_options(plan),
        **(share.workload_options(plan) if plan.workload == share.KIND else {}),
    }
