"""From a plan to its workload. A new one is a module of `workloads/` and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.model.protocols import Workload
from harness.plan import TestPlan
from workloads import delivery, queue


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


WORKLOADS: Final[Mapping[str, Callable[[TestPlan], Workload]]] = {"queue": _queue, "delivery": _delivery}


def make(plan: TestPlan) -> Workload:
    """The workload that a plan names."""
    return WORKLOADS[plan.workload](plan)
