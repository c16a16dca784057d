"""Plans from values: defaults, types, and the rules between fields; each mistake as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from harness.clients.table import CLIENTS
from harness.cluster.table import CLUSTERS
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import schedule
from harness.plan.defaults import DEFAULTS
from harness.plan.rules import RULES
from harness.plan.test_plan import TestPlan, option_name
from harness.yaml_data import Place, Where, line
from workloads.table import WORKLOADS


def names() -> Mapping[str, Sequence[str]]:
    """What may stand in fields that name a row of a table."""
    return {
        "cluster": tuple(CLUSTERS),
        "workload": tuple(WORKLOADS),
        "client": tuple(library.written or name for name, library in CLIENTS.items() if not library.internal),
    }


def make(values: Mapping[str, Any], where: Where | None = None) -> TestPlan:
    """A plan of option values. Raises BadInput with one line per mistake.

    where  place of a key (and whether of its value) -> file:line:column, empty where it is no file's
    """
    try:
        for default in DEFAULTS:
            values = default(values)
        plan = TestPlan.model_validate(dict(values), context=names())
        for rule in RULES:
            rule(plan)
    except ValidationError as error:
        raise BadInput("\n".join(_explain(error, where))) from None
    except ValueError as error:
        raise BadInput(str(error)) from None
    return plan


def with_facts(plan: TestPlan, facts: Mapping[str, Any]) -> TestPlan:
    """The plan with what is known of the cluster that it is carried out on. Raises BadInput where what was
    asked for does not go with that."""
    given = {name: getattr(plan, name) for name in plan.model_fields_set if name != "schema_"}
    return make({**given, "seed": plan.seed, **facts})


def keys(place: Place) -> Sequence[str]:
    """What may stand in a mapping of a plan file, by its place."""
    if place[:1] == ("schedule",):
        return schedule.keys(place[1:])
    return [field.alias or name for name, field in TestPlan.model_fields.items()]


def _explain(error: ValidationError, where: Where | None) -> list[str]:
    """Each error as a sentence that names the file's line, or the option."""
    sentences = []
    for mistake in error.errors():
        place = tuple(mistake["loc"])
        if where is not None and place and where(place, False):
            sentences.append(line(mistake, where, keys))
        else:
            sentences.append(_option(mistake))
    return sentences


def _option(error: Any) -> str:
    """One pydantic error as a sentence that names the option."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"{option_name(name)}: no such option; `harness run --help` lists them"
    return f"{option_name(name)} {error['input']}: {message[0].lower()}{message[1:]}"
