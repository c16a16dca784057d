"""The table of workloads. To add a workload, write one module and add one row.

A row has the function that makes the workload, and the dataclass of its options. The options have the same names as in
the plan. If a workload emits faults itself, `acts_on` says which capabilities these faults need from the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from harness.generator import Then
from harness.model.fault_and_generator_protocols import Workload
from workloads import app, compacted, delivery, pipeline, queue, share
from workloads.recovery import workload as recovery
from workloads.recovery.scenarios import SCENARIOS

LOG_MODEL: Final = "log-model"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table of workloads.

    make     options -> workload
    options  the dataclass of the options
    acts_on  options -> which capabilities ("disks", "network") the workload's own faults need from the cluster; None if
             the workload emits no faults
    """

    make: Callable[[Any], Workload]
    options: type[Any]
    acts_on: Callable[[Any], frozenset[str]] | None = None

    def options_of(self, values: Mapping[str, Any]) -> Any:
        """Returns the workload's options.

        `values` are the fields of the plan; each option has the value of the field with its name.
        """
        return self.options(**{field.name: values[field.name] for field in fields(self.options)})


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """The options of the recovery workload. `harness run --help` describes them."""

    scenario: str
    key_count: int
    rate_hz: float


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a workload without options."""


def _recovery(options: RecoveryOptions) -> Workload:
    return recovery.workload(options.scenario, options.key_count, options.rate_hz)


def _log_model(options: NoOptions) -> Workload:
    """Returns a workload without ops, because `harness.run.log_model` executes the steps.

    Each step depends on the outcomes of earlier steps.
    """
    return Workload(LOG_MODEL, Then(()), None, "log", (LOG_MODEL,))


WORKLOADS: Final[dict[str, Row]] = {
    "queue": Row(queue.workload, queue.Options),
    "delivery": Row(delivery.workload, delivery.Options),
    "compacted": Row(compacted.workload, compacted.Options),
    "recovery": Row(_recovery, RecoveryOptions, lambda options: frozenset(SCENARIOS[options.scenario].needs)),
    LOG_MODEL: Row(_log_model, NoOptions),
    "pipeline": Row(pipeline.workload, pipeline.Options),
    "app": Row(app.workload, app.Options),
    "share": Row(share.workload, share.Options),
}
