"""Makes plans from values: applies defaults, checks types and the rules between fields, and explains each mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from harness.clients.app import spec
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
    """Returns field -> valid values, for fields whose value names a row of a table: cluster, workload and client."""
    return {
        "cluster": tuple(CLUSTERS),
        "workload": tuple(WORKLOADS),
        "client": tuple(library.written or name for name, library in CLIENTS.items() if not library.internal),
    }


def make(values: Mapping[str, Any], where: Where | None = None) -> TestPlan:
    """Makes a plan from option values. Raises BadInput, with one line for each mistake.

    where  called as where(keys, value). `keys` are the keys that lead to an option, from the outermost on. Returns the
           file:line:column of the last key or, if `value` is true, of its value; "" if it does not come from a file
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
    """Returns the plan with some fields set to what is known of the cluster on which it runs.

    facts  field -> value, such as the number of nodes

    Raises BadInput if other fields of the plan do not fit these values.
    """
    given = {name: getattr(plan, name) for name in plan.model_fields_set if name != "schema_"}
    return make({**given, "seed": plan.seed, **facts})


def keys(place: Place) -> Sequence[str]:
    """Returns the keys that are allowed in a mapping of a plan file.

    place  the keys that lead to the mapping, from the outermost on; empty for the whole file
    """
    if place[:1] == ("schedule",):
        return schedule.keys(place[1:])
    if place[:1] == ("app",):
        return spec.keys(place[1:])
    return [field.alias or name for name, field in TestPlan.model_fields.items()]


def _explain(error: ValidationError, where: Where | None) -> list[str]:
    """Returns one sentence for each error, which names the file's line or the option."""
    sentences = []
    for mistake in error.errors():
        place = tuple(mistake["loc"])
        if where is not None and place and where(place, False):
            sentences.append(line(mistake, where, keys))
        else:
            sentences.append(_option(mistake))
    return sentences


def _option(error: Any) -> str:
    """Returns a sentence for one pydantic error, which names the option."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"{option_name(name)}: no such option; see `harness run --help`"
    return f"{option_name(name)} {error['input']}: {message[0].lower()}{message[1:]}"
