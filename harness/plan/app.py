"""Defaults and rules of the options of an application under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plan.test_plan import TestPlan
from nemesis.targets import CLIENT_TARGETS

KIND = "app"
WRITERS = 1
OF_INSTANCES = frozenset({"restart", "rolling-restart"})  # on clients


def defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds the fields that follow from the application: its instances, and the number of clients."""
    app = values.get("app")
    if values.get("workload") != KIND or not isinstance(app, Mapping):
        return values
    instances = values.get("instances", app.get("instances", 2))
    added = {"writers": WRITERS, **values, "instances": instances, "sub_via": ("subscribe",)}
    partitions = values.get("partitions", TestPlan.model_fields["partitions"].get_default())
    if isinstance(instances, int) and isinstance(added["writers"], int):  # validation of the fields reports the rest
        added["concurrency"] = added["writers"] + instances
    return {**added, "partitions_per_topic": partitions}


def rule(plan: TestPlan) -> None:
    """Checks the options of the app workload. Raises ValueError with what to do instead."""
    if (plan.app is not None) != (plan.workload == KIND):
        raise ValueError("--workload app and --app FILE must be given together; the file describes the application")
    if plan.app is None:
        _no_instances(plan)
        return
    if plan.client != ("confluent",):
        raise ValueError(f"--client {','.join(plan.client)}: --workload app writes and reads with confluent")
    if plan.cluster == "sim":
        raise ValueError("--cluster sim has no brokers that an application could connect to")
    if plan.txn:
        raise ValueError("--txn cannot be combined with --workload app: the application decides")
    if plan.clients_per_process != 1:
        raise ValueError("--clients-per-process cannot be combined with --workload app: instances fail one by one")


def _no_instances(plan: TestPlan) -> None:
    """Raises ValueError for a fault that needs instances of an application."""
    for name in (*plan.nemesis, *(entry.fault for entry in plan.schedule)):
        verb, _, target = name.partition(":")
        if verb in OF_INSTANCES and target in CLIENT_TARGETS:
            raise ValueError(f"{name} restarts instances of an application: use --workload app, or kill:{target}")


def workload_options(plan: TestPlan) -> Mapping[str, Any]:
    """Returns the options of the app workload that are not fields of the plan, or have another name there."""
    return {"app": {} if plan.app is None else plan.app.model_dump(by_alias=True, mode="json")}
