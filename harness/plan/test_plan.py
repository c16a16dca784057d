"""The plan: one frozen object that describes a run.

Every option of `harness run` is a field here, with its default. `plan.yaml` in the run folder also contains the seed,
the versions and the git commit; `harness run --plan FILE` repeats the run. The seed determines the sequence of ops, and
the order and the targets of the faults, but not when each of them happens.

This module contains only data. `harness.plan.make_plan` makes plans, with the defaults that depend on other fields and
the rules between fields. `harness.plan.derived` computes values from plans.
"""

from __future__ import annotations

from typing import Final

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
    ShareFields,
)

# The fields that describe the cluster itself. For a run on a cluster that was started before, that start decides them.
OF_CLUSTER: Final = (
    "kafka_version", "nodes", "metadata", "controllers", "network", "outside", "proxy", "broker_config",
    "system", "image", "hosts", "log_dirs", "racks",
)  # fmt: skip


# pydantic puts the fields of the last base class first.
class TestPlan(
    CheckingFields,
    FaultFields,
    ClientFields,
    ShareFields,
    PipelineFields,
    KeyFields,
    LoadFields,
    ClusterFields,
    RunFields,
):
    """The description of a run. Names of times end in _s or _ms, names of rates in _hz."""

    __test__ = False  # not a test, although its name starts with Test
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def option_name(field: str) -> str:
    """Returns the command-line option that sets a field of the plan."""
    for unit in ("_s", "_hz"):
        field = field.removesuffix(unit)
    return "--" + field.replace("_", "-")
