"""`harness recovery`: the scenarios of the recovery workload, and a table of what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.parameters import RunsDir
from harness.model.errors_and_exit_codes import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID

app = typer.Typer(no_args_is_help=True, help="Crashes and damage, step by step: harness run --workload recovery.")


@app.callback()
def _app() -> None:
    """Crashes and damage, step by step: harness run --workload recovery."""


@app.command("list")
def list_() -> int:
    """The scenarios, and what each is about."""
    from workloads.recovery.scenarios import SCENARIOS

    width = max(map(len, SCENARIOS))
    for name, row in SCENARIOS.items():
        needs = f" [needs {', '.join(sorted(row.needs))}]" if row.needs else ""
        print(f"{name:{width}}  {row.shows}{needs}")
    return EXIT_VALID


@app.command()
def table(
    runs: RunsDir = Path("runs"),
    kafka_version: Annotated[str, typer.Option(help="Only runs of this version.")] = "",
    markdown: Annotated[bool, typer.Option(help="As a table for a document.")] = False,
) -> int:
    """What came of the newest run of each scenario, from the stored runs. Exit code 0: all as expected."""
    from harness.experiments import recovery

    rows = recovery.stored(runs, kafka_version)
    table = recovery.table(rows)
    print(recovery.markdown(table) if markdown else recovery.aligned(table))
    return EXIT_VALID if rows and all(row.expected for row in rows) else EXIT_UNKNOWN


def several(scenario: str | None, plan_file: Path | None) -> bool:
    """Whether more than one scenario is asked for: some with commas, or, by naming none, all."""
    return plan_file is None and (not scenario or "," in scenario)


def run_several(options: Mapping[str, Any], schedule: Path | None, runs: Path, master: str, quiet: bool) -> int:
    """Every scenario, or those that --scenario names with commas, each on a cluster of its own.

    Exit code 0: each did what is expected of it; 1: one did not; 2: some could not be run. Raises BadInput.
    """
    from harness.experiments import recovery
    from harness.model.errors_and_exit_codes import BadInput
    from harness.plan import from_options
    from harness.run import test

    if schedule is not None:
        raise BadInput("--workload recovery has its own faults: leave --schedule out")

    def say(text: str) -> None:
        print(text, flush=True)

    rows, interrupted = recovery.run_each(
        recovery.names(options.get("scenario") or ""),
        lambda name: from_options.gather({**options, "scenario": name}, None, None)[0],
        lambda plan: test.run(plan, runs, say, master, quiet),
        say,
    )
    say("")
    say(recovery.aligned(recovery.table(rows)))
    if interrupted:
        return EXIT_INTERRUPTED
    if all(row.expected for row in rows):
        return EXIT_VALID
    return EXIT_UNKNOWN if all(row.expected or row.result is None for row in rows) else EXIT_INVALID
