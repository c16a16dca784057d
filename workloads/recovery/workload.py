"""The recovery workload: a scenario's steps one after another, then final polls as in the queue workload.

Clients send records as in the delivery workload; what is done to servers between are ops of the nemesis, in
the history like every other, with what is expected of them: `workloads.recovery.scenarios` has the scenarios,
`nemesis.recovery.run_steps` carries the acts out, and `checker.checks.recovery` judges.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from harness.generator import (
    NOTHING,
    After,
    Barrier,
    Clients,
    EachSlot,
    Fn,
    ForNemesis,
    Limit,
    Once,
    Rate,
    Then,
    any_,
    op,
)
from harness.model.fault_and_generator_protocols import Generator, Workload
from harness.model.op import INFO, NEMESIS, Op
from workloads.delivery import Options, Writers
from workloads.final_polls import FinalPolls
from workloads.recovery.scenarios import SCENARIOS
from workloads.recovery.step_types import Act, Read, Scenario, Send

FAULT: Final = "recovery"
STEP: Final = "step"


def act(done: Act, number: int, scenario: Scenario) -> Op:
    """The nemesis op of an act. `number`: which of the scenario's acts, from 0."""
    value: dict[str, Any] = {**done.value, "scenario": scenario.name, "number": number, "of": acts(scenario)}
    if number == 0:
        value["rule"] = {"lost": scenario.lost, "reported": scenario.reported}
    return Op(-1, -1, NEMESIS, INFO, STEP, value, None, {"fault": FAULT, "span": ""})


def acts(scenario: Scenario) -> int:
    """How many acts a scenario has."""
    return sum(isinstance(step, Act) or (isinstance(step, Send) and step.beside is not None) for step in scenario.steps)


def generator(scenario: Scenario, keys: int, rate_hz: float) -> Generator:
    """Every step, each when the one before has come to its end."""
    parts: list[Generator] = []
    sent, number = 0, 0
    for step in scenario.steps:
        if isinstance(step, Act):
            parts.append(ForNemesis(Once(act(step, number, scenario))))
            number += 1
        elif isinstance(step, Read):
            assign = Once(op("assign", list(range(keys)), seek_to_beginning=True))
            polls = Then((assign, Limit(Fn(lambda ctx, n: op("poll", [["poll"]])), step.polls)))
            parts.append(Clients(EachSlot(partial(_first, polls))))
        else:
            writers: Generator = Limit(Writers(Options(keys=keys), sent), step.records)
            sends: Generator = Clients(Rate(writers, int(1e9 / rate_hz)) if rate_hz else writers)
            sent += step.records
            if step.beside is not None:
                beside = After(int(step.after_s * 1e9), Once(act(step.beside, number, scenario)))
                sends = any_(sends, ForNemesis(beside))
                number += 1
            parts.append(sends)
    return Then(tuple(Barrier(part) for part in parts))


def _first(generator: Generator, slot: int) -> Generator:
    """The generator for the first slot; the others have nothing to do."""
    return generator if slot == 0 else NOTHING


def workload(name: str, keys: int, rate_hz: float) -> Workload:
    """The recovery workload of a scenario."""
    return Workload(
        "recovery",
        generator(SCENARIOS[name], keys, rate_hz),
        FinalPolls(),
        client="queue",
        checks=("queue", "delivery", "recovery"),
        drives_faults=True,
    )
