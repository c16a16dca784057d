"""Carries out a matrix within a budget: goes on after failures, and retries nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.experiments.matrix.spec import Cell
from harness.experiments.run import Attempt, attempt, describe
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, HarnessError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Done:
    """A cell and what came of it; None where the budget ended first. `error`: why it could not be run."""

    cell: Cell
    attempt: Attempt | None
    error: str = ""

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 otherwise, 2 when nothing can be said."""
        if self.attempt is None or not self.attempt.conclusive:
            return EXIT_UNKNOWN
        return EXIT_VALID if self.attempt.met else EXIT_INVALID


def matrix(
    cells: Sequence[Cell],
    runs_dir: Path,
    budget_s: float,
    say: Say,
    spark_master: str = "local[*]",
    allow_commands: bool = False,
) -> list[Done]:
    """Every cell in order. No cell is begun that would probably outlast the budget, going by the longest
    of those before it."""
    began, longest = time.monotonic(), 0.0
    found: list[Done] = []
    for at, cell in enumerate(cells):
        left = budget_s - (time.monotonic() - began)
        if left < longest or left <= 0:
            say(f"the budget is spent: {len(cells) - at} of {len(cells)} were not run")
            found += [Done(each, None, "the budget ended first") for each in cells[at:]]
            break
        say(f"{at + 1} of {len(cells)}: {cell.name}")
        started = time.monotonic()
        try:
            plan = cell.case.test_plan(cell.seed)
            outcome = attempt(cell.case, plan, runs_dir, spark_master, plan.client if allow_commands else ())
            found.append(Done(cell, outcome, outcome.why))
            say(f"  {describe(outcome)}")
        except HarnessError as error:
            found.append(Done(cell, None, str(error)))
            say(f"  not run: {error}")
        longest = max(longest, time.monotonic() - started)
    return found


def exit_code(done: Sequence[Done]) -> int:
    """Otherwise than expected wins over unknown; what the budget cut off does not count."""
    begun = [outcome for outcome in done if outcome.attempt is not None or outcome.error != "the budget ended first"]
    codes = [outcome.exit_code for outcome in begun]
    if not codes:
        return EXIT_UNKNOWN
    return next((code for code in (EXIT_INVALID, EXIT_UNKNOWN) if code in codes), EXIT_VALID)
