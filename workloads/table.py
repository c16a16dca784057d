"""The workloads by name. A new one is one module and one row here.

A row says which function makes the workload, and of which options: a dataclass whose fields are called as in
the plan. Where the ops of faults come from the workload itself, `acts_on` says what of a cluster they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from harness.generator import Then
from harness.model.fault_and_generator_protocols import Workload
from workloads import delivery, pipeline, queue
from workloads.recovery import workload as recovery
from workloads.recovery.scenarios import SCENARIOS

LOG_MODEL: Final = "log-model"


@dataclass(frozen=True, slots=True)
class Row:
    """make     options -> workload
    options  their dataclass
    acts_on  options -> what its own faults need of the cluster ("disks", "network"); None: it has none
    """

    make: Callable[[Any], Workload]
    options: type[Any]
    acts_on: Callable[[Any], frozenset[str]] | None = None

    def options_of(self, values: Mapping[str, Any]) -> Any:
        """The options, from what is known of a plan by name."""
        return self.options(**{field.name: values[field.name] for field in fields(self.options)})


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """See `harness run --help`."""

    scenario: str
    key_count: int
    rate_hz: float


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Of a workload that takes none."""


def _recovery(options: RecoveryOptions) -> Workload:
    return recovery.workload(options.scenario, options.key_count, options.rate_hz)


def _log_model(options: NoOptions) -> Workload:
    """Its steps are carried out by `harness.run.log_model`: none is known before the one before it is done."""
    return Workload(LOG_MODEL, Then(()), None, "log", (LOG_MODEL,))


WORKLOADS: Final[dict[str, Row]] = {
    "queue": Row(queue.workload, queue.Options),
    "delivery": Row(delivery.workload, delivery.Options),
    "recovery": Row(_recovery, RecoveryOptions, lambda options: frozenset(SCENARIOS[options.scenario].needs)),
    LOG_MODEL: Row(_log_model, NoOptions),
    "pipeline": Row(pipeline.workload, pipeline.Options),
}
