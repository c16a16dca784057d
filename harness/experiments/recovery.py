"""Runs recovery scenarios, each of them once, and makes a table from stored runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import Result, from_data
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.plan.test_plan import TestPlan
from harness.stored.find_runs import plan_of
from workloads.recovery.scenarios import SCENARIOS
from workloads.recovery.step_types import Scenario

Say = Callable[[str], None]
HEAD: Final = ("scenario", "Kafka", "verdict", "as expected", "recovered", "load", "lost", "run")


@dataclass(frozen=True, slots=True)
class Row:
    """A scenario with the result of its run, or the reason why there is no result."""

    scenario: str
    version: str
    folder: str
    result: Result | None
    refused: str = ""

    @property
    def expected(self) -> bool:
        """Whether the run did what the scenario expects; see `as_expected`."""
        return self.result is not None and as_expected(SCENARIOS[self.scenario], self.result)


def names(text: str) -> list[str]:
    """Returns the scenarios in a comma-separated list, or all scenarios if the list is empty.

    Raises BadInput for an unknown scenario.
    """
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in chosen if name not in SCENARIOS]
    if unknown:
        raise BadInput(f"--scenario {unknown[0]}: no such scenario; see `harness recovery list`")
    return chosen or list(SCENARIOS)


def as_expected(scenario: Scenario, result: Result) -> bool:
    """Returns whether a run did what its scenario expects.

    All steps of the scenario must have been carried out. Every start of the broker must have recovered its log as
    intended. The verdict must be one that the scenario allows. If the verdict is invalid, all bad anomalies must be
    ones that Kafka does not rule out under the settings.
    """
    if (result.statistics.get("recovery") or {}).get("undone"):
        return False
    bad = [found for found in result.anomalies if found.bad]
    if any(found.name == "recovery-divergence" for found in bad) or result.valid not in scenario.verdicts:
        return False
    return result.valid != "invalid" or all(found.promised is False for found in result.anomalies if found.bad)


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Returns the rows as text: for each row, one text per column in HEAD."""
    return [_cells(row) for row in rows]


def _cells(row: Row) -> list[str]:
    if row.result is None:
        return [row.scenario, row.version, "-", "not run", "-", "-", "-", row.refused or row.folder]
    figures: Mapping[str, Any] = row.result.statistics.get("recovery") or {}
    starts = figures.get("starts", [])
    recovered = ", ".join(f"{start['recovered']} of {start['segments']}" for start in starts)
    load = ", ".join("ended" if start["ended"] else f"{start['load_ms']} ms" for start in starts)
    lost = row.result.statistics.get("delivery", {}).get("lost", 0)
    names = [found.name for found in row.result.anomalies if found.bad]
    verdict = row.result.valid + (f" ({', '.join(names)})" if names else "")
    expected = "yes" if row.expected else "NO"
    return [row.scenario, row.version, verdict, expected, recovered, load, str(lost), Path(row.folder).name]


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows as a table with aligned columns, below HEAD."""
    every = [HEAD, *rows]
    widths = [max(len(row[n]) for row in every) for n in range(len(HEAD))]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
    )


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows as a Markdown table, below HEAD. The last column, the name of the run, is omitted."""
    every = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join(f"| {' | '.join(row[:-1])} |" for row in every)


def stored(runs: Path, version: str = "") -> list[Row]:
    """Returns the newest run of each scenario in a folder of runs.

    version  use only runs with this Kafka version; empty: the newest run of each combination of scenario and version
    """
    newest: dict[tuple[str, str], Row] = {}
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        plan = {} if folder.is_symlink() else plan_of(folder)
        name, kafka = str(plan.get("scenario") or ""), str(plan.get("kafka_version") or "")
        if name not in SCENARIOS or version not in ("", kafka):
            continue
        try:
            result = from_data(json.loads((folder / "results.json").read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # incomplete, or edited by hand
            continue
        newest[name, kafka] = Row(name, kafka, str(folder), result)
    order = list(SCENARIOS)
    return sorted(newest.values(), key=lambda row: (order.index(row.scenario), row.version))


def run_each(
    names: Sequence[str],
    make: Callable[[str], TestPlan],
    run: Callable[[TestPlan], Any],
    say: Say,
) -> tuple[list[Row], bool]:
    """Runs scenarios one after another, each on a cluster of its own.

    A scenario that this machine cannot run, or whose cluster fails, is reported and skipped. Returns the rows, and
    whether the user interrupted the runs.
    """
    rows = []
    for name in names:
        version = ""
        try:
            plan = make(name)
            version = plan.kafka_version
            outcome = run(plan)
        except HarnessError as error:
            say(f"{name}: {error}")
            rows.append(Row(name, version, "", None, str(error).splitlines()[0]))
            continue
        rows.append(Row(name, version, str(outcome.folder), outcome.result))
        if outcome.interrupted:
            return rows, True
    return rows, False
