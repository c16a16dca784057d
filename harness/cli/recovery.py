"""The `harness recovery` commands: the scenarios of the recovery workload, and a table of their results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.parameters import RunsDir
from harness.model.errors_and_exit_codes import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID

app = typer.Typer(
    no_args_is_help=True, help="Scenarios of crashes and disk damage, run with: harness run --workload recovery."
)


@app.callback()
def _app() -> None:
    """Scenarios of crashes and disk damage, run with: harness run --workload recovery."""


@app.command("list")
def list_() -> int:
    """List the scenarios and what each one shows."""
    from workloads.recovery.scenarios import SCENARIOS

    width = max(map(len, SCENARIOS))
    for name, row in SCENARIOS.items():
        needs = f" [needs {', '.join(sorted(row.needs))}]" if row.needs else ""
        print(f"{name:{width}}  {row.shows}{needs}")
    return EXIT_VALID


@app.command()
def table(
    runs: RunsDir = Path("runs"),
    kafka_version: Annotated[str, typer.Option(help="Only runs of this Kafka version.")] = "",
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> int:
    """Show the result of the newest stored run of each scenario.

    Exit code 0: all results are as expected; 2: some are not, or there are no runs.
    """
    from harness.experiments import recovery

    rows = recovery.stored(runs, kafka_version)
    table = recovery.table(rows)
    print(recovery.markdown(table) if markdown else recovery.aligned(table))
    return EXIT_VALID if rows and all(row.expected for row in rows) else EXIT_UNKNOWN


def several(scenario: str | None, plan_file: Path | None) -> bool:
    """Returns whether these options select several scenarios. Without options, all scenarios are selected."""
    return plan_file is None and (not scenario or "," in scenario)


def run_several(options: Mapping[str, Any], schedule: Path | None, runs: Path, master: str, quiet: bool) -> int:
    """Runs every scenario, or those that --scenario lists, each on its own cluster. Raises BadInput.

    Exit code 0: all results are as expected; 1: some are not; 2: some scenarios could not be run.
    """
    from harness.experiments import recovery
    from harness.model.errors_and_exit_codes import BadInput
    from harness.plan import from_options
    from harness.run import test

    if schedule is not None:
        raise BadInput("--schedule cannot be combined with --workload recovery, which has its own faults")

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
