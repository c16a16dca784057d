"""Makes a plan from command-line options, a plan file and a schedule file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.clients.app import spec
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.make_plan import make
from harness.plan.plan_file import load_data
from harness.plan.schedule import read
from harness.plan.test_plan import TestPlan, option_name
from harness.yaml_data import Place, Where


def gather(
    options: Mapping[str, Any], plan_file: Path | None, schedule_file: Path | None, app_file: Path | None = None
) -> tuple[TestPlan, Where]:
    """Returns the plan, and a function that returns the place of a key in a file.

    A place is file:line:column, or "" for options and defaults. Options, the schedule file and the file that describes
    an application override the plan file.
    Raises BadInput.
    """
    base = load_data(plan_file) if plan_file is not None else None
    schedule = read(schedule_file) if schedule_file is not None else None
    app = spec.read(app_file) if app_file is not None else None
    options = {name: value for name, value in options.items() if name not in ("schedule", "app")}  # paths of files
    values = plan_values(options, base.data if base is not None else {})
    if schedule is not None:
        values["schedule"] = schedule.data
    if app is not None:
        values["app"] = app.data

    def where(place: Place, value: bool = False) -> str:
        if place[:1] == ("schedule",) and schedule is not None:
            return schedule.where(place[1:], value)
        if place[:1] == ("app",) and app is not None:
            return app.where(place[1:], value)
        if base is None or place[0] in options or place[:1] not in base.values:
            return ""
        return base.where(place, value)

    return make(values, where), where


def plan_values(given: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the plan's fields: those given on the command line, else those of a plan file (`base`)."""
    values = dict(base)
    for field, value in given.items():
        if field not in TestPlan.model_fields or value is None:
            continue
        default = TestPlan.model_fields[field].get_default(call_default_factory=False)
        if isinstance(default, dict):
            value = {**values.get(field, {}), **mapping(value, option_name(field))}
        elif isinstance(default, tuple):
            value = tuple(part.strip() for part in value.split(",") if part.strip() and part != "none")
        values[field] = value
    return values


def mapping(pairs: list[str], option: str) -> dict[str, str]:
    """Returns key -> value, from texts of the form key=value. Raises BadInput."""
    by_key = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise BadInput(f"{option} {pair}: write it as key=value")
        by_key[key.strip()] = value
    return by_key
