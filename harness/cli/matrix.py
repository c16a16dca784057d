"""The `harness matrix` command, which runs many plans from one file within a time budget."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.parameters import RunsDir, SparkMaster

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    """Converts "90", "20m" or "4h" to seconds. Raises BadInput."""
    from harness.model.errors_and_exit_codes import BadInput

    matched = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not matched:
        raise BadInput(f"--budget {text}: must be a number of seconds, or a number with m or h, such as 20m")
    return float(matched[1]) * UNITS[matched[2]]


def parts(text: str) -> tuple[int, int]:
    """Converts "1/4" to (1, 4). Raises BadInput."""
    from harness.model.errors_and_exit_codes import BadInput

    matched = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if not matched or not 1 <= int(matched[1]) <= int(matched[2]):
        raise BadInput(f"--shard {text}: must be the part and the number of parts, such as 1/4 for the first of four")
    return int(matched[1]), int(matched[2])


def matrix(
    file: Annotated[
        Path, typer.Argument(help="A YAML file with the settings to combine and the experiments to include.")
    ],
    budget: Annotated[str, typer.Option(help="Time budget for all runs: 90 (seconds), 20m or 4h.")] = "4h",
    shard: Annotated[str, typer.Option(help="Which shard of the runs to execute; 1/4 is the first of four.")] = "1/1",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random order; also the seed of the first run of each case.")
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for summary.md, junit.xml and results.json.")] = None,
    only: Annotated[
        str, typer.Option(metavar="NAME", help="Execute only the run with this name; --list prints the names.")
    ] = "",
    show: Annotated[
        bool, typer.Option("--list", help="Print the names of the runs, in order, and run nothing.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option(help="Results folder of an earlier matrix; rates that differ from it are listed.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder of your own experiments.")] = None,
    allow_commands: Annotated[
        bool, typer.Option("--allow-commands", help="Execute the client programs that the file names.")
    ] = False,
    runs_dir: RunsDir = Path("runs"),
    spark_master: SparkMaster = "local[*]",
) -> int:
    """Run a matrix of workloads, faults, settings and versions.

    A failed run does not stop the matrix, and no run is retried. Exit code 0: all results are as expected; 1: some
    are not; 2: some runs could not be judged. Runs that the budget cuts off do not affect the exit code.

    [bold]Examples[/bold]

      harness matrix nightly.yaml --budget 20m --shard 1/4
      harness matrix nightly.yaml --list
    """
    from harness.experiments.matrix import report, spec
    from harness.experiments.matrix import run as running

    budget_s, (part, of) = seconds(budget), parts(shard)
    cells = spec.load(file, seed, folder)
    cells = spec.shard(spec.chosen(cells, only) if only else cells, part, of)
    if show:
        print("\n".join(f"{cell.name} (seed {cell.seed})" for cell in cells))
        return 0
    if baseline is not None:
        report.changed([], baseline)  # raises for a bad baseline before the first run
    target = out or runs_dir / "matrix" / time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    done = running.matrix(cells, runs_dir, budget_s, print, spark_master, allow_commands)
    changes = report.changed(done, baseline) if baseline is not None else []
    for path in report.write(done, target, changes):
        print(f"  {path}")
    for line in changes:
        print(f"changed: {line}")
    print(running.counts(done))
    return running.exit_code(done)
