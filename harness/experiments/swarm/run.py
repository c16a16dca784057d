"""Runs the rounds of a swarm within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.experiments.expectations import ANY, Expectation
from harness.experiments.run import attempt
from harness.experiments.spec import Case
from harness.experiments.swarm.draw_rounds import Round, drawn
from harness.experiments.swarm.spec import Swarm, is_plan
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, HarnessError
from harness.run.spark import NONE

Say = Callable[[str], None]
NOT_RUN: Final = "not run"


@dataclass(frozen=True, slots=True)
class Done:
    """A round and its result.

    verdict    valid, invalid, unknown or not run
    anomalies  those that Kafka rules out under the plan's settings, the most severe one first
    why        why the verdict is unknown or the plan was not run; otherwise empty
    """

    round: Round
    verdict: str
    anomalies: tuple[str, ...] = ()
    folder: str = ""
    seconds: float = 0.0
    why: str = ""

    @property
    def finding(self) -> str:
        """A name that runs of the same finding share: the workload and the most severe anomaly; "" if there is none."""
        return f"{self.round.plan.get('workload', 'queue')}: {self.anomalies[0]}" if self.anomalies else ""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result of shrinking the plan of a finding's first run.

    comes_again  whether most runs of the same plan showed the anomaly
    plan         path of the smallest plan; empty if there is none
    summary      what the search said last
    """

    comes_again: bool
    plan: str
    summary: str


def carry_out(swarm: Swarm, seed: int, first: int, end_s: float, runs_dir: Path, say: Say) -> Iterator[Done]:
    """Runs one round after another, from number `first` on. Yields each result.

    Stops before the first round that would probably end too late, judging by the longest round so far.

    end_s  when the time budget is used up, on the monotonic clock
    """
    longest_s, number = 0.0, first
    while time.monotonic() + longest_s < end_s:
        chosen = drawn(swarm, seed, number, is_plan)
        say(f"round {number}: {'; '.join(chosen.features) or 'no features'}")
        started = time.monotonic()
        done = once(chosen, runs_dir)
        say(f"  {described(done)}")
        longest_s = max(longest_s, time.monotonic() - started)
        yield done
        number += 1


def described(done: Done) -> str:
    """Returns the result of a round as one line."""
    shown = ", ".join(done.anomalies) or done.why
    return f"{done.verdict}{f' ({shown})' if shown else ''}; {done.seconds:.0f} s  {done.folder}"


def once(chosen: Round, runs_dir: Path) -> Done:
    """Runs the plan of a round."""
    case = Case("swarm", "", chosen.plan, Expectation(never=(ANY,)), 1)
    try:
        outcome = attempt(case, case.test_plan(int(chosen.plan["seed"])), runs_dir, NONE, plots=False)
    except HarnessError as error:
        return Done(chosen, NOT_RUN, why=str(error))
    return Done(chosen, outcome.valid, tuple(outcome.broken), outcome.folder, outcome.seconds, outcome.why)


def exit_code(done: Sequence[Done]) -> int:
    """Returns 1 if a round was invalid against a promise of Kafka, 2 if no round was judged, else 0."""
    if any(each.anomalies for each in done):
        return EXIT_INVALID
    return EXIT_VALID if any(each.verdict in ("valid", "invalid") for each in done) else EXIT_UNKNOWN
