"""Runs the plan of a stored run again, for `harness replay` and `harness shrink --schedule`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.experiments.expectations import wilson
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BadInput, ClusterTrouble
from harness.plan import plan_file
from harness.plan.test_plan import TestPlan
from harness.run import test

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Repeat:
    """One of the repeated runs.

    valid    the verdict
    bad      anomaly -> count, for the anomalies that count against the verdict
    why      why the verdict is unknown; otherwise empty
    checked  a sentence: where the history was checked with `--spark-master auto`, and why there; empty with another
             master
    """

    valid: str
    bad: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    folder: str = ""
    why: str = ""
    checked: str = ""


@dataclass(frozen=True, slots=True)
class Came:
    """An anomaly that occurred in k of n repeated runs. `before` says whether it occurred in the original run."""

    anomaly: str
    k: int
    n: int
    before: bool

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of k / n (Wilson)."""
        return wilson(self.k, self.n)


def plan_of(run: Path) -> TestPlan:
    """Returns the plan of a run. Raises BadInput if the run has no plan."""
    path = run / "plan.yaml"
    if not path.is_file():
        raise BadInput(f"{run}: no plan.yaml, so the run cannot be repeated (imported histories have none)")
    return plan_file.load(path)


def once(plan: TestPlan, runs_dir: Path, spark_master: str, commands: Collection[str] = ()) -> Repeat:
    """Runs a plan once. Raises BadInput, Missing, and KeyboardInterrupt if the user interrupts the run."""
    began = time.monotonic()
    try:
        outcome = test.run(plan, runs_dir, lambda text: None, spark_master, quiet=True, commands=commands)
    except ClusterTrouble as error:
        return Repeat("unknown", {}, time.monotonic() - began, why=str(error))
    if outcome.interrupted:
        raise KeyboardInterrupt
    result = outcome.result
    why = result.reasons[0] if result.valid == "unknown" and result.reasons else ""
    return Repeat(result.valid, bad_of(result), time.monotonic() - began, str(outcome.folder), why, outcome.checked)


def bad_of(result: Result) -> dict[str, int]:
    """Returns anomaly -> count, for the anomalies that count against the verdict."""
    return {anomaly.name: anomaly.count for anomaly in result.anomalies if anomaly.bad}


def replay(run: Callable[[], Repeat], times: int, say: Say) -> list[Repeat]:
    """Calls `run` several times, and reports the result of each run when it ends."""
    found = []
    for n in range(times):
        found.append(run())
        if found[-1].checked:
            say(f"  {found[-1].checked}")
        say(f"  run {n + 1} of {times}: {describe(found[-1])}")
    return found


def describe(repeat: Repeat) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in repeat.bad.items()) or repeat.why[:160]
    return f"{repeat.valid}{': ' if shown else ''}{shown}  {repeat.folder} ({repeat.seconds:.0f} s)"


def came(before: Mapping[str, int], repeats: Sequence[Repeat]) -> list[Came]:
    """Returns in how many runs each anomaly occurred: first those of the original run (`before`), then the others.

    Runs with an unknown verdict are not counted.
    """
    judged = [repeat for repeat in repeats if repeat.valid != "unknown"]
    others = {name for repeat in judged for name in repeat.bad} - before.keys()
    return [
        Came(name, sum(name in repeat.bad for repeat in judged), len(judged), name in before)
        for name in (*before, *sorted(others))
    ]


def exit_code(before: Mapping[str, int], repeats: Sequence[Repeat]) -> int:
    """Returns 0 if the runs agree with the original run, 1 if not, and 2 if unknown verdicts leave this open.

    They agree if every anomaly of the original run (`before`) was seen again. If the original run had no anomaly, they
    agree if none of the runs shows one.
    """
    rows = came(before, repeats)
    if all(row.k > 0 for row in rows if row.before) and (before or all(row.k == 0 for row in rows)):
        known = bool(before) or all(repeat.valid != "unknown" for repeat in repeats)
        return EXIT_VALID if known else EXIT_UNKNOWN
    return EXIT_INVALID if all(repeat.valid != "unknown" for repeat in repeats) else EXIT_UNKNOWN


def text(before: Mapping[str, int], repeats: Sequence[Repeat]) -> str:
    """Formats, for a terminal, in how many runs each anomaly was seen. `before`: anomalies of the original run."""
    rows = came(before, repeats)
    lines = [f"  {_row(row)}" for row in rows]
    unknown = sum(repeat.valid == "unknown" for repeat in repeats)
    if not rows:
        lines.append(f"  no anomaly, as in the original run, in {len(repeats) - unknown} of {len(repeats)} runs")
    if unknown:
        lines.append(f"  {unknown} of {len(repeats)} runs have an unknown verdict and do not count")
    return "\n".join(lines)


def _row(row: Came) -> str:
    low, high = row.interval
    verb = "seen again" if row.before else "not seen in the original run, but seen"
    return f"{row.anomaly} {verb} in {row.k} of {row.n} runs (95%: {low:.0%} to {high:.0%})"


def data(before: Mapping[str, int], repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Returns the runs, and in how many of them each anomaly was seen. `before`: anomalies of the original run."""
    return {
        "before": dict(before),
        "runs": [
            {"valid": repeat.valid, "anomalies": dict(repeat.bad), "seconds": repeat.seconds, "folder": repeat.folder}
            for repeat in repeats
        ],
        "came": [
            {"anomaly": row.anomaly, "k": row.k, "n": row.n, "interval": row.interval, "before": row.before}
            for row in came(before, repeats)
        ],
    }
