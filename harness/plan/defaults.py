"""Defaults that depend on other fields: what a cluster's address, a scenario, the log model and the pipeline
ask for, unless the plan says otherwise. Each takes a plan's values, not validated, and gives them back with
what was added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.plan import pipeline
from workloads.log_model import draw_broker_actions
from workloads.recovery import scenarios

Values = Mapping[str, Any]
LOG_MODEL_S: Final = 1200.0  # time for all steps


def where(values: Values) -> Values:
    """`local:NAME` is two fields; addresses alone say that the cluster is external."""
    kind, colon, name = str(values.get("cluster", "")).partition(":")
    if colon:
        return {**values, "cluster": kind, "cluster_name": name}
    return {**values, "cluster": "external"} if values.get("bootstrap") and "cluster" not in values else values


def log_model(values: Values) -> Values:
    """Brokers that look soon at what there is to do, and time for all steps, unless the plan says."""
    if values.get("workload") != "log-model":
        return values
    given = values.get("broker_config") or {}
    if not isinstance(given, dict):
        return values  # told of by the field
    broker = {**draw_broker_actions.BROKER, **given}
    wanted = {"time_limit_s": LOG_MODEL_S, "concurrency": 1}
    if draw_broker_actions.wants_controller(dict(values)):
        wanted["controllers"] = 1
    return {**wanted, **values, "broker_config": broker}


def scenario(values: Values) -> Values:
    """What a scenario asks for, unless the plan says otherwise."""
    if str(values.get("scenario")) not in scenarios.SCENARIOS:
        return values
    wanted = scenarios.settings(values["scenario"])
    given = values.get("broker_config") or {}
    if not isinstance(given, dict):
        return values  # told of by the field
    broker = {**wanted["broker_config"], **given}
    return {**wanted, **values, "broker_config": broker}


DEFAULTS: Final[tuple[Callable[[Values], Values], ...]] = (where, log_model, scenario, pipeline.defaults)
