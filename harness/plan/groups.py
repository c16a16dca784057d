"""The group protocol of the queue workload's consumers: its defaults, rules and properties (KIP-848).

With `both`, a group has classic and consumer members at the same time, and the broker converts it while it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clients.exec.command import PREFIX
from harness.plan.pipeline import CONSUMER_SESSION, older
from harness.plan.test_plan import TestPlan

NAMED: Final = ("group.protocol", "group.remote.assignor", "group.instance.id")
WORKLOADS: Final = ("queue", "delivery")


def defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds what the new protocol needs: consumers that subscribe, and short sessions, which brokers set."""
    if values.get("group_protocol", "classic") == "classic" or values.get("workload", "queue") not in WORKLOADS:
        return values
    given = values.get("broker_config") or {}
    own = str(values.get("cluster", "local")) in ("local", "docker") and not values.get("cluster_name")
    if not isinstance(given, dict) or not own:
        return {"sub_via": ("subscribe",), **values}
    return {"sub_via": ("subscribe",), **values, "broker_config": {**CONSUMER_SESSION, **given}}


def rule(plan: TestPlan) -> None:
    """Checks the options of consumer groups. Raises ValueError with a text that says what to do instead."""
    _check_subscription(plan)
    used = {
        f"--group-protocol {plan.group_protocol}": plan.group_protocol != "classic",
        f"--remote-assignor {plan.remote_assignor}": plan.remote_assignor,
    }
    options = [option for option, given in used.items() if given]
    if not options:
        return
    if plan.workload not in WORKLOADS:
        raise ValueError(f"{options[0]} requires --workload queue or delivery; a pipeline has --assignor")
    if "subscribe" not in plan.sub_via:
        raise ValueError(f"{options[0]} has no effect with --sub-via {','.join(plan.sub_via)}: use subscribe")
    if plan.group_protocol == "classic":
        raise ValueError(f"{options[0]} requires --group-protocol consumer or both")
    if named := [name for name in NAMED if name in plan.consumer_config]:
        raise ValueError(f"{options[0]} cannot be combined with --consumer-config {named[0]}")
    if plan.cluster in ("mock", "sim") or older(plan.kafka_version, (4, 0)):
        raise ValueError(f"{options[0]} needs brokers of Kafka 4.0 or later")
    if without := [name for name in plan.client if name not in ("confluent", "java") and not name.startswith(PREFIX)]:
        raise ValueError(f"{options[0]}: --client {without[0]} has no such protocol; use confluent or java")
    if plan.group_protocol == "both" and any(name.startswith(PREFIX) for name in plan.client):
        raise ValueError(f"{options[0]}: a client program gets one protocol; use consumer")


def _check_subscription(plan: TestPlan) -> None:
    """Checks --sub-pattern and --static-members. Raises ValueError."""
    used = {"--sub-pattern": plan.sub_pattern, "--static-members": static(plan)}
    for option in [option for option, given in used.items() if given]:
        if plan.workload not in WORKLOADS:
            raise ValueError(f"{option} requires --workload queue or delivery")
        if "subscribe" not in plan.sub_via:
            raise ValueError(f"{option} has no effect with --sub-via {','.join(plan.sub_via)}: use subscribe")
        if plan.cluster in ("mock", "sim"):
            raise ValueError(f"{option} needs Kafka brokers, not --cluster {plan.cluster}")
        if without := [name for name in plan.client if name not in ("confluent", "java")]:
            raise ValueError(f"{option}: --client {without[0]} cannot do this; use confluent or java")
        if "group.instance.id" in plan.consumer_config:
            raise ValueError(f"{option} cannot be combined with --consumer-config group.instance.id")


def static(plan: TestPlan) -> bool:
    """Returns whether the slots' consumers are static members. Pipelines make their instances static themselves."""
    return plan.static_members and plan.workload not in ("pipeline", "app")


def properties(plan: TestPlan) -> list[Mapping[str, str]]:
    """Returns the consumer properties of the protocols that the slots use in turn; [] for the library's defaults.

    With `both`, a slot changes the protocol whenever a new process takes it over.
    """
    remote = {"group.remote.assignor": plan.remote_assignor} if plan.remote_assignor else {}
    consumer = {"group.protocol": "consumer", **remote}
    protocols = {"classic": [], "consumer": [consumer], "both": [{"group.protocol": "classic"}, consumer]}
    return list(protocols[plan.group_protocol])
