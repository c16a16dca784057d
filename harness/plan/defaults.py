"""Defaults that depend on other fields: the cluster's address, the scenario, the log model, the pipeline.

Each function takes the values of a plan before validation, and returns the values with its defaults added. A value that
the plan sets itself is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.plan import app, compacted, groups, pipeline, share, upgrade
from workloads.log_model import draw_broker_actions
from workloads.recovery import scenarios

Values = Mapping[str, Any]
LOG_MODEL_S: Final = 1200.0  # time limit that is enough for all steps


def where(values: Values) -> Values:
    """Splits the value `local:NAME` of the field `cluster` into two fields, `cluster` and `cluster_name`.

    If the plan has bootstrap addresses but no cluster, sets `cluster` to "external".
    """
    kind, colon, name = str(values.get("cluster", "")).partition(":")
    if colon:
        return {**values, "cluster": kind, "cluster_name": name}
    return {**values, "cluster": "external"} if values.get("bootstrap") and "cluster" not in values else values


def log_model(values: Values) -> Values:
    """Adds defaults for the log model: short intervals for brokers' background tasks, and enough time for all steps."""
    if values.get("workload") != "log-model":
        return values
    given = values.get("broker_config") or {}
    if not isinstance(given, dict):
        return values  # validation of the field reports this
    broker = {**draw_broker_actions.BROKER, **given}
    wanted = {"time_limit_s": LOG_MODEL_S, "concurrency": 1}
    if draw_broker_actions.wants_controller(dict(values)):
        wanted["controllers"] = 1
    return {**wanted, **values, "broker_config": broker}


def scenario(values: Values) -> Values:
    """Adds the defaults of the plan's recovery scenario."""
    if str(values.get("scenario")) not in scenarios.SCENARIOS:
        return values
    wanted = scenarios.settings(values["scenario"])
    given = values.get("broker_config") or {}
    if not isinstance(given, dict):
        return values  # validation of the field reports this
    broker = {**wanted["broker_config"], **given}
    return {**wanted, **values, "broker_config": broker}


DEFAULTS: Final[tuple[Callable[[Values], Values], ...]] = (
    where,
    log_model,
    scenario,
    pipeline.defaults,
    groups.defaults,
    app.defaults,
    share.defaults,
    upgrade.defaults,
    compacted.defaults,
)
