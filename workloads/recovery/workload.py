"""The recovery workload: executes the steps of a crash recovery scenario, then the final polls.

What can go wrong, with segments at base offsets 0, 52, 104 and 156 and the recovery point at 156:

    nemesis    step  {"do": "kill", "who": "leader"}
    nemesis    step  {"do": "damage", "who": "leader", "kind": "flip-last"}     a bit flips in segment 156
    nemesis    step  {"do": "start", "who": "leader"}                           its log: no segment recovered
    process 2  fail  poll  the checksum of a batch does not match

The server was killed, so it must recover every segment at or after the recovery point, here segment 156. Recovery would
have truncated the log at the damaged batch and replicated the rest again. In this run, the server skipped recovery and
returns the damaged batch to clients (`recovery-divergence`).

Clients send records as in the delivery workload. Between the sends there are acts: nemesis ops that do something to
servers, such as a kill. The history records each act with its expected outcome. `workloads.recovery.scenarios` has the
scenarios, `nemesis.recovery.run_steps` executes the acts, and `checker.checks.recovery` judges their outcome. The final
polls are those of the queue workload.
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
    """Returns the nemesis op for an act. `number` is the index of the act among all acts of the scenario, from 0."""
    value: dict[str, Any] = {**done.value, "scenario": scenario.name, "number": number, "of": acts(scenario)}
    if number == 0:
        value["rule"] = {"lost": scenario.lost, "reported": scenario.reported}
    return Op(-1, -1, NEMESIS, INFO, STEP, value, None, {"fault": FAULT, "span": ""})


def acts(scenario: Scenario) -> int:
    """Returns how many acts a scenario has."""
    return sum(isinstance(step, Act) or (isinstance(step, Send) and step.during is not None) for step in scenario.steps)


def generator(scenario: Scenario, keys: int, rate_hz: float) -> Generator:
    """Returns the generator of a scenario's steps. Each step starts after the previous one has finished."""
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
            if step.during is not None:
                during = After(int(step.after_s * 1e9), Once(act(step.during, number, scenario)))
                sends = any_(sends, ForNemesis(during))
                number += 1
            parts.append(sends)
    return Then(tuple(Barrier(part) for part in parts))


def _first(generator: Generator, slot: int) -> Generator:
    """Returns `generator` for slot 0, and a generator without ops for all other slots."""
    return generator if slot == 0 else NOTHING


def workload(name: str, keys: int, rate_hz: float) -> Workload:
    """Returns the recovery workload of a scenario."""
    return Workload(
        "recovery",
        generator(SCENARIOS[name], keys, rate_hz),
        FinalPolls(),
        client="queue",
        checks=("queue", "delivery", "recovery"),
        drives_faults=True,
    )
