"""The faults and modes of the client matrix, and which cells of the matrix exist.

A cell is a library, a fault and a mode. Whether it exists follows from the capabilities that the client program reports
in its answer to `hello`, from what the adapter needs for the mode, and from the definition of the fault.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.clients.exec.adapter import needed
from harness.plan import make_plan
from harness.plan.test_plan import TestPlan
from harness.run import make_cluster
from harness.run.start_workers import client_needs
from nemesis.verbs.wire import PRESETS

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
    },
}
# APIs that only transactional clients use.
_OF_TRANSACTIONS: Final = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"})


class Cell(NamedTuple):
    """A library, a fault and a mode, by their names."""

    library: str
    fault: str
    mode: str


@dataclass(frozen=True, slots=True)
class Absent:
    """Cells that do not exist: those of a library or a fault in a mode, and the reason."""

    name: str
    mode: str
    why: str


def plan_fields(fault: str, mode: str, capabilities: Collection[str]) -> dict[str, Any]:
    """The fields of a plan for a fault and a mode. Producers are idempotent if the mode leaves it open and the
    library can be."""
    chosen = dict(MODES[mode])
    chosen.setdefault("idempotence", "idempotence" in capabilities)
    fields = {**COMMON, **chosen, **FAULTS[fault]}
    if mode == "exactly once":
        del fields["concurrency"]  # follows from writers and instances
    return fields


def absent(libraries: Mapping[str, Collection[str]]) -> list[Absent]:
    """Which libraries, given with their capabilities, and which faults do not exist in which modes."""
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
    """Every cell that exists."""
    gaps = {(each.name, each.mode) for each in absent(libraries)}
    return [
        Cell(library, fault, mode)
        for library in libraries
        for fault in FAULTS
        for mode in MODES
        if (library, mode) not in gaps and (fault, mode) not in gaps
    ]


def needs(mode: str, capabilities: Collection[str]) -> list[str]:
    """The capabilities that a mode needs from a client program with these capabilities."""
    return needed(client_needs(make_cluster.resolved(_plan("none", mode, capabilities))))


def _without(fault: str, mode: str) -> str:
    """Why a fault would have no effect in a mode; "" if it has one."""
    plan = _plan(fault, mode)
    for each in make_cluster.resolved(plan).faults:
        rules = PRESETS[each.name.removeprefix("wire:")].rules if each.name.startswith("wire:") else ()
        if any(_OF_TRANSACTIONS.issuperset(rule.api) and rule.api for rule in rules) and not _transactional(plan):
            return f"{each.name} acts on transactions, and the mode has none"
        if each.subscribed and not _subscribes(plan):
            return f"{each.name} acts on a consumer group, and the mode has none"
    return ""


def _plan(fault: str, mode: str, capabilities: Collection[str] = ()) -> TestPlan:
    return make_plan.make({**plan_fields(fault, mode, capabilities), "seed": 0})


def _transactional(plan: TestPlan) -> bool:
    return plan.txn or plan.workload == PIPELINE


def _subscribes(plan: TestPlan) -> bool:
    return "subscribe" in plan.sub_via
