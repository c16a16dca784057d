"""Defaults and rules of the compacted workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.plan.test_plan import TestPlan

KIND: Final = "compacted"
RECORD_KEYS: Final = 8
# Segments are rolled and cleaned within seconds; a topic's active segment is never cleaned.
BROKER: Final[Mapping[str, str]] = {
    "log.cleanup.policy": "compact",
    "log.roll.ms": "1000",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
CLIENTS: Final = ("confluent",)


def defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds transactions, the number of record keys, and the broker settings that make the cleaner run often."""
    given = values.get("broker_config") or {}
    if values.get("workload") != KIND or not isinstance(given, dict):
        return values  # validation of the field reports what is wrong
    return {"txn": True, "record_keys": RECORD_KEYS, **values, "broker_config": {**BROKER, **given}}


def rule(plan: TestPlan) -> None:
    """Checks the options of the compacted workload. Raises ValueError with what to do instead."""
    if plan.workload != KIND:
        if plan.record_keys:
            raise ValueError(f"--record-keys {plan.record_keys} requires --workload {KIND}")
        return
    if plan.cluster != "local" or plan.cluster_name:
        raise ValueError(f"--workload {KIND} requires --cluster local, whose brokers it configures")
    if plan.client != CLIENTS:
        raise ValueError(f"--client {','.join(plan.client)}: --workload {KIND} writes and reads with confluent")
    if not plan.record_keys:
        raise ValueError(f"--record-keys 0: --workload {KIND} needs at least one record key")
    if "compact" not in plan.broker_config.get("log.cleanup.policy", ""):
        raise ValueError(f"--broker-config log.cleanup.policy: --workload {KIND} needs compact")
