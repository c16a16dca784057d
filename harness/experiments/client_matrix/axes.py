"""The faults and modes of the client matrix, and which of its cells exist.

A cell is a combination of a library, a fault and a mode. It exists if the library's client program reports all
capabilities that the mode needs (in its answer to `hello`), and if the fault can have an effect in the mode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.clients.exec.adapter import needed
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, make_plan
from harness.plan.test_plan import TestPlan
from harness.run import make_cluster
from harness.run.start_workers import client_needs
from nemesis import table as nemeses

# Fields of the plan of every run. The faults of FAULTS have the time to take effect and to end within the load.
COMMON: Final[Mapping[str, Any]] = {
    "time_limit_s": 10.0,
    "nemesis_first_s": 2.0,
    "nemesis_interval_s": 5.0,
    "final_time_limit_s": 60.0,
    "concurrency": 5,
    "acks": "all",
}
# The client is paused for longer than the session timeout of 6 s.
_PAUSED: Final = [{"fault": "pause:client", "at": "1s", "for": "7s"}]
FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "none": {"nemesis": []},
    "kill:leader": {"nemesis": ["kill:leader"]},
    "isolate:leader": {"nemesis": ["isolate:leader"]},
    "pause:client": {"schedule": _PAUSED},
    "kill:client": {"nemesis": ["kill:client"]},
    "lost acks": {"nemesis": ["wire:lose-acks"]},
    "refused sends": {"nemesis": ["wire:refuse-produce", "wire:time-out-produce"]},
    "late EndTxn": {"nemesis": ["wire:late-endtxn"]},
    "rebalances": {"nemesis": ["rebalance:group"]},
}
PIPELINE: Final = "pipeline"
MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {"idempotence": False},
    "idempotent": {"idempotence": True},
    "transactional": {"idempotence": True, "txn": True},
    "classic group": {"sub_via": ["subscribe"]},
    "consumer group": {"sub_via": ["subscribe"], "consumer_config": {"group.protocol": "consumer"}},
    "exactly once": {
        "workload": PIPELINE,
        "idempotence": True,
        "writers": 2,
        "instances": 3,
        "partitions": 6,
        "churn_interval_s": 0,
        "assignor": "roundrobin",  # the only one that every library has
    },
}


class Cell(NamedTuple):
    """One combination of a library, a fault and a mode, each given by its name."""

    library: str
    fault: str
    mode: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A library or fault that is not combined with a mode, so the matrix has no cells with both.

    name  the library or the fault
    mode  the mode
    why   the reason
    """

    name: str
    mode: str
    why: str


def plan_fields(fault: str, mode: str, capabilities: Collection[str]) -> dict[str, Any]:
    """Returns the fields of the plan for a fault and a mode.

    Some modes leave it open whether producers are idempotent. In these modes, the plan makes producers idempotent if
    `capabilities` contains "idempotence".
    """
    chosen = dict(MODES[mode])
    chosen.setdefault("idempotence", "idempotence" in capabilities)
    fields = {**COMMON, **chosen, **FAULTS[fault]}
    if mode == "exactly once":
        del fields["concurrency"]  # follows from writers and instances
    return fields


def absent(libraries: Mapping[str, Collection[str]]) -> list[Absent]:
    """Returns the combinations of a library or a fault with a mode that do not exist.

    libraries  library -> the capabilities of its client program
    """
    found = []
    for mode in MODES:
        for library, capabilities in libraries.items():
            missing = [each for each in needs(mode, capabilities) if each not in capabilities]
            if missing:
                found.append(Absent(library, mode, f"the library has no {', '.join(missing)}"))
        for fault in FAULTS:
            why = _without(fault, mode)
            if why:
                found.append(Absent(fault, mode, why))
    return found


def cells(libraries: Mapping[str, Collection[str]]) -> list[Cell]:
    """Returns all cells that exist.

    A cell exists if the library has the capabilities that its mode needs, and its fault can have an effect in this
    mode.

    libraries  library -> the capabilities of its client program
    """
    gaps = {(each.name, each.mode) for each in absent(libraries)}
    return [
        Cell(library, fault, mode)
        for library in libraries
        for fault in FAULTS
        for mode in MODES
        if (library, mode) not in gaps and (fault, mode) not in gaps
    ]


def needs(mode: str, capabilities: Collection[str]) -> list[str]:
    """Returns the capabilities that a client program needs for a mode.

    capabilities  those that the program has; they decide whether its producers are idempotent, see `plan_fields`
    """
    return needed(client_needs(make_cluster.resolved(_plan("none", mode, capabilities))))


def _without(fault: str, mode: str) -> str:
    """Returns the reason why a fault cannot have an effect in a mode; "" if it can have one."""
    plan = _plan(fault, mode)
    try:
        nemeses.refuse_pointless(make_cluster.resolved(plan).faults, derived.uses(plan))
    except BadInput as error:
        return str(error)
    return ""


def _plan(fault: str, mode: str, capabilities: Collection[str] = ()) -> TestPlan:
    return make_plan.make({**plan_fields(fault, mode, capabilities), "seed": 0})
