"""From a plan to its workload. A new one is a module of `workloads/` and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.generator import Then
from harness.model.protocols import Fault, Workload
from harness.plan import pipeline as pipelines
from harness.plan.test_plan import TestPlan
from nemesis.recovery import steps
from workloads import delivery, pipeline, queue
from workloads.recovery import workload
from workloads.recovery.scenarios import SCENARIOS


def _queue(plan: TestPlan) -> Workload:
    return queue.workload(
        queue.Options(
            txn=plan.txn,
            min_txn_length=plan.min_txn_length,
            max_txn_length=plan.txn_length_max,
            key_count=plan.key_count,
            max_writes_per_key=plan.max_writes_per_key,
            key_dist=plan.key_dist,
            key_dist_base=plan.key_dist_base,
            abort_p=plan.abort_p,
            sub_p=plan.sub_p,
            sub_via=plan.sub_via,
            crash_clients=plan.crash_clients,
            crash_client_interval_s=plan.crash_client_interval_s,
        )
    )


def _delivery(plan: TestPlan) -> Workload:
    return delivery.workload(delivery.Options(plan.records, plan.key_count, plan.primer, plan.settle_s))


def _recovery(plan: TestPlan) -> Workload:
    return workload.workload(plan.scenario, plan.key_count, plan.rate_hz)


def _log_model(plan: TestPlan) -> Workload:
    """Its steps are carried out by `harness.run.log_model`: none is known before the one before it is done."""
    return Workload("log-model", Then(()), None, "log", ("log-model",))


def _pipeline(plan: TestPlan) -> Workload:
    return pipeline.workload(pipelines.options(plan))


WORKLOADS: Final[Mapping[str, Callable[[TestPlan], Workload]]] = {
    "queue": _queue,
    "delivery": _delivery,
    "recovery": _recovery,
    "log-model": _log_model,
    "pipeline": _pipeline,
}


def make(plan: TestPlan) -> Workload:
    """The workload that a plan names."""
    return WORKLOADS[plan.workload](plan)


def driven(plan: TestPlan) -> tuple[Fault, ...]:
    """The faults whose ops come from the plan's workload."""
    if plan.workload != "recovery":
        return ()
    needs = SCENARIOS[plan.scenario].needs
    return (steps.fault("disks" in needs, "network" in needs),)
