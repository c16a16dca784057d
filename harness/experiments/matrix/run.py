"""Runs the cells of a matrix (its planned runs) within a time budget.

A failed run does not stop the matrix, and is not retried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.experiments.matrix.spec import Cell
from harness.experiments.run import Attempt, attempt, describe
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, HarnessError
from harness.run.allowed_commands import commands_of

Say = Callable[[str], None]
BUDGET_USED_UP: Final = "the time budget was used up before"


@dataclass(frozen=True, slots=True)
class Done:
    """A cell and the result of its run.

    attempt  the run; None if it failed, or if it was not started because the time budget was used up
    error    why there is no run, or why its verdict is unknown; otherwise empty
    """

    cell: Cell
    attempt: Attempt | None
    error: str = ""

    @property
    def begun(self) -> bool:
        """Whether the budget allowed the run."""
        return self.attempt is not None or self.error != BUDGET_USED_UP

    @property
    def exit_code(self) -> int:
        """Exit code 0: as expected; 1: not as expected; 2: unknown."""
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
    """Runs the cells in order. Returns one result for each cell, also for those that were not run.

    Stops before the first run that would probably exceed the time budget, judging by the longest run so far.
    """
    began, longest = time.monotonic(), 0.0
    found: list[Done] = []
    for at, cell in enumerate(cells):
        remaining_s = budget_s - (time.monotonic() - began)
        if remaining_s < longest or remaining_s <= 0:
            say(f"the time budget is used up: {len(cells) - at} of {len(cells)} were not run")
            found += [Done(each, None, BUDGET_USED_UP) for each in cells[at:]]
            break
        say(f"{at + 1} of {len(cells)}: {cell.name}")
        started = time.monotonic()
        try:
            plan = cell.case.test_plan(cell.seed)
            outcome = attempt(cell.case, plan, runs_dir, spark_master, commands_of(plan) if allow_commands else ())
            found.append(Done(cell, outcome, outcome.why))
            say(f"  {describe(outcome)}")
        except HarnessError as error:
            found.append(Done(cell, None, str(error)))
            say(f"  not run: {error}")
        longest = max(longest, time.monotonic() - started)
    return found


def exit_code(done: Sequence[Done]) -> int:
    """Returns 1 if a run was not as expected, else 2 if a verdict is unknown, else 0.

    Runs that were not started because the time budget was used up are ignored. Returns 2 if no run was started.
    """
    codes = [outcome.exit_code for outcome in done if outcome.begun]
    if not codes:
        return EXIT_UNKNOWN
    return next((code for code in (EXIT_INVALID, EXIT_UNKNOWN) if code in codes), EXIT_VALID)


def counts(done: Sequence[Done]) -> str:
    """Says how many runs were as expected, not as expected, unknown, and not run, such as "4 of 6 runs as expected"."""
    begun = [outcome.exit_code for outcome in done if outcome.begun]
    parts = [f"{begun.count(EXIT_VALID)} of {len(done)} runs as expected"]
    wrong, unknown, beyond = begun.count(EXIT_INVALID), begun.count(EXIT_UNKNOWN), len(done) - len(begun)
    parts += [f"{wrong} NOT as expected"] * bool(wrong) + [f"{unknown} could not be judged"] * bool(unknown)
    parts += [f"{beyond} not run, because the time budget was used up"] * bool(beyond)
    return ", ".join(parts)
