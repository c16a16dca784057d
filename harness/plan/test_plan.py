"""The plan: one frozen object that describes a run.

Every option of `harness run` is a field here, and the field holds the default. `plan.yaml` in the run folder
adds the seed that was drawn, the versions and the git commit; `harness run --plan FILE` repeats it. What the
seed decides is the stream of ops and the order and targets of faults; timing it does not.

Data only. `harness.plan.make_plan` makes plans, with the defaults that depend on other fields and the rules
between fields; `harness.plan.derived` has what follows from them.
"""

from __future__ import annotations

from pydantic import ConfigDict

from harness.plan.options import (
    CheckingFields,
    ClientFields,
    ClusterFields,
    FaultFields,
    KeyFields,
    LoadFields,
    PipelineFields,
    RunFields,
)


# pydantic orders the fields of the bases from the last to the first.
class TestPlan(
    CheckingFields, FaultFields, ClientFields, PipelineFields, KeyFields, LoadFields, ClusterFields, RunFields
):
    """A run, described. Times end in _s or _ms, rates in _hz."""

    __test__ = False  # not a test, whatever pytest thinks of the name
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def option_name(field: str) -> str:
    """The command-line option of a plan's field."""
    for unit in ("_s", "_hz"):
        field = field.removesuffix(unit)
    return "--" + field.replace("_", "-")
