"""Reads and writes plans as YAML files: the plan.yaml of a run folder, or any such file."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness import yaml_data
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import schedule
from harness.plan.derived import min_isr, replication_factor
from harness.plan.make_plan import make
from harness.plan.options import SCHEMA
from harness.plan.test_plan import TestPlan
from harness.yaml_data import Loaded


def dump(plan: TestPlan) -> str:
    """Returns the plan as YAML."""
    data = plan.model_dump(by_alias=True, mode="json")
    data |= {"replication": replication_factor(plan), "min_insync_replicas": min_isr(plan)}
    if plan.app is None:
        del data["app"]
    else:
        data["app"] = plan.app.model_dump(by_alias=True, mode="json", exclude_defaults=True)
    data["schedule"] = schedule.dumped(plan.schedule)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def load_data(path: Path) -> Loaded:
    """Returns the content of a plan file, which is a mapping, without validating its fields.

    Raises BadInput with the file, line and column.
    """
    loaded = yaml_data.load(path, "a plan")
    if not isinstance(loaded.data, dict):
        raise BadInput(f"{loaded.where((), True)}: a plan is a mapping of options")
    newer = loaded.data.get("schema", SCHEMA)
    if not isinstance(newer, int) or newer > SCHEMA:
        at = loaded.where(("schema",), True)
        raise BadInput(
            f"{at}: written with schema {newer}; this version reads schemas up to {SCHEMA}: use a newer harness"
        )
    return loaded


def load(path: Path) -> TestPlan:
    """Returns the plan in a run folder's plan.yaml, or in any other plan file.

    Raises BadInput, which names the file.
    """
    loaded = load_data(path)
    try:
        return make(loaded.data, loaded.where)
    except BadInput as error:
        text = str(error) if str(error).startswith(f"{path}:") else f"{path}: {error}"
        raise BadInput(f"{text}; correct the file, or check the run's history/*.jsonl without it") from None
