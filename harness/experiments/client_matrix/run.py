"""Runs the cells of a client matrix within a time budget, and repeats the cells whose verdict is invalid or unknown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.experiments.client_matrix.axes import Cell

Say = Callable[[str], None]
RUNS_MAX: Final = 200
REPEATS: Final = 2  # further seeds of a cell whose first verdict is invalid or unknown
VALID, ALLOWED, INVALID, UNKNOWN, NOT_RUN = "valid", "allowed", "invalid", "unknown", "not run"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a cell.

    verdict    the verdict of the run, with two additions: an invalid run is `allowed` if Kafka does not rule out any of
               its anomalies under the settings (such as a duplicate without idempotence); `not run` if there was no run
    anomalies  name of an anomaly -> how often it was found
    why        why the verdict is unknown or `not run`; otherwise empty
    """

    library: str
    fault: str
    mode: str
    seed: int
    verdict: str
    seconds: float
    folder: str = ""
    anomalies: dict[str, int] = field(default_factory=dict)
    why: str = ""

    @property
    def cell(self) -> Cell:
        return Cell(self.library, self.fault, self.mode)


def due(cells: Sequence[Cell], done: Sequence[Ran], seed: int) -> list[tuple[Cell, int]]:
    """Returns the (cell, seed) pairs that still have to be run.

    Each cell is run once. Cells whose first run was invalid or unknown are then run with REPEATS further seeds.
    """
    ran = {(each.cell, each.seed) for each in done if each.verdict != NOT_RUN}
    found = {each.cell for each in done if each.seed == seed and each.verdict in (INVALID, UNKNOWN)}
    first = [(cell, seed) for cell in cells]
    again = [(cell, seed + n) for cell in cells if cell in found for n in range(1, REPEATS + 1)]
    return [each for each in (*first, *again) if each not in ran]


def run(
    cells: Sequence[Cell],
    done: Sequence[Ran],
    attempt: Callable[[Cell, int], Ran],
    seed: int,
    budget_s: float,
    say: Say,
    runs_max: int = RUNS_MAX,
) -> Iterator[Ran]:
    """Runs the cells that are not in `done` yet, and yields each run.

    Stops before a run that would probably exceed the time budget, judging by the longest run so far, `done` included. A
    run that could not be carried out is not tried again.
    """
    began, longest = time.monotonic(), max((ran.seconds for ran in done), default=0.0)
    every, tried = list(done), set[tuple[Cell, int]]()
    while True:
        waiting = [each for each in due(cells, every, seed) if each not in tried]
        count = sum(each.verdict != NOT_RUN for each in every)
        if not waiting:
            return
        remaining_s = budget_s - (time.monotonic() - began)
        if count >= runs_max or remaining_s < longest or remaining_s <= 0:
            what = f"{runs_max} runs are the limit" if count >= runs_max else "the time budget is used up"
            say(f"{what}: {count} runs are done, {len(waiting)} more are due")
            return
        cell, number = waiting[0]
        say(f"{count + 1} of {count + len(waiting)}: {', '.join(cell)}, seed {number}")
        started = time.monotonic()
        ran = attempt(cell, number)
        longest = max(longest, time.monotonic() - started)
        tried.add((cell, number))
        every.append(ran)
        found = ", ".join(f"{name} {n:,}" for name, n in ran.anomalies.items()) or ran.why[:200]
        say(f"  {ran.verdict}{f' ({found})' if found else ''}; {ran.seconds:.0f} s  {ran.folder}")
        yield ran
