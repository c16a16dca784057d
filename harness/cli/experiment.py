"""The `harness experiment` commands: run named experiments and compare the results with the expected ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import client_matrix
from harness.cli.matrix import seconds
from harness.cli.parameters import SparkMaster
from harness.model.errors_and_exit_codes import EXIT_VALID, BadInput

if TYPE_CHECKING:
    from harness.experiments.run import Tried
    from harness.experiments.spec import Experiment

app = typer.Typer(no_args_is_help=True, help="Reproduce known failures with repeatable experiments.")
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", envvar="HARNESS_EXPERIMENTS", help="Folder of your own experiments, added to the built-in ones."
    ),
]
Name = Annotated[str, typer.Argument(help="Name of an experiment, or a YAML file.")]


@app.callback()
def _app() -> None:
    """Reproduce known failures with repeatable experiments."""


@app.command("list")
def list_(
    folder: Folder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """List the experiments with their titles."""
    from harness.experiments import spec

    found = [spec.load(path) for path in spec.every(folder).values()]
    if as_json:
        rows = [
            {
                "name": one.name,
                "title": one.title,
                "kind": one.kind,
                "source": one.source,
                "cases": len(one.cases),
            }
            for one in found
        ]
        row = {"name": client_matrix.NAME, "title": client_matrix.TITLE, "kind": client_matrix.KIND}
        rows.append({**row, "source": client_matrix.SOURCE, "cases": 0})
        print(json.dumps(rows))
        return EXIT_VALID
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        print(f"{one.name:{width}}  {one.kind:9}  {one.title}")
    print(f"{client_matrix.NAME:{width}}  {client_matrix.KIND:9}  {client_matrix.TITLE}")
    print("next: harness experiment show NAME; harness experiment run NAME")
    return EXIT_VALID


@app.command()
def show(name: Name, folder: Folder = None) -> int:
    """Describe an experiment: its purpose, and the plan and the expected results of each case."""
    from harness.experiments import spec

    if name == client_matrix.NAME:
        from harness.experiments.client_matrix import axes

        print(f"{name}: {client_matrix.TITLE}\n\nsource: {client_matrix.SOURCE}")
        print(f"modes: {', '.join(axes.MODES)}\nfaults: {', '.join(axes.FAULTS)}")
        print(f"\nnext: harness experiment run {name}")
        return EXIT_VALID
    found = spec.named(name, folder)
    print(f"{found.name}: {found.title}\n\n{found.why}\n\nsource: {found.source}\nfile: {found.path}")
    for case in found.cases:
        print(f"\n{case.name}{f' [{case.variant}]' if case.variant else ''}: {case.title} ({case.runs} runs)")
        print(f"  plan: {json.dumps(dict(case.plan))}")
        for text in case.expect.texts:
            print(f"  expected: {text}")
    print(f"\nnext: harness experiment run {name}")
    return EXIT_VALID


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of an experiment, or a YAML file. Omit it with --all.")] = "",
    times: Annotated[int | None, typer.Option("--runs", "-n", min=1, help="Number of runs of each case.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; each further run uses the next seed.")] = 1,
    stop: Annotated[bool, typer.Option("-x", help="Stop a case at its first run with an unexpected result.")] = False,
    case: Annotated[
        str,
        typer.Option(
            help="Run only the case or variant with this name; with client-matrix, only these libraries, "
            "comma-separated."
        ),
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment, one after the other.")] = False,
    kept: Annotated[
        Path | None, typer.Option("--report", help="Write the track record of these runs to this file.")
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(help="A persistent cluster, local:NAME, for cases that need no cluster settings of their own."),
    ] = "",
    folder: Folder = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for report.md, table.csv and results.json; client-matrix continues the results in it."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="client-matrix: time budget for all runs together, e.g. 90 (seconds), 20m or 4h.")
    ] = "4h",
    client_user: Annotated[
        str, typer.Option(help="client-matrix: the user that the client programs run as, if the harness runs as root.")
    ] = "nobody",
    runs_dir: Annotated[
        Path, typer.Option("--runs-dir", envvar="HARNESS_RUNS", help="Folder that holds the runs.")
    ] = Path("runs"),
    spark_master: SparkMaster = "local[*]",
) -> int:
    """Run an experiment and compare its results with the expected ones.

    Exit code 0: all results are as expected; 1: some are not; 2: some runs could not be judged.

    [bold]Examples[/bold]

      harness experiment run delivery-study --runs 5

      harness experiment run delivery-study --case test-1 -n 1

      harness experiment run acks-1 --runs 5 --cluster local:warm

      harness experiment run --all --runs 5 --report track-record.md

      harness experiment run client-matrix --budget 2h
    """
    if name == client_matrix.NAME:
        if times or stop or everything or kept or folder:
            raise BadInput("--runs, -x, --all, --report and --folder cannot be combined with client-matrix")
        return client_matrix.run(case, seed, cluster, out, runs_dir, seconds(budget), client_user, spark_master)
    from harness.experiments import record, spec
    from harness.experiments import run as running

    if everything == bool(name):
        raise BadInput("name one experiment, or use --all; `harness experiment list` lists the names")
    if everything and (case or out):
        raise BadInput("--case and --out need the name of one experiment; they cannot be combined with --all")
    every = [spec.load(path) for path in spec.every(folder).values()] if everything else []
    codes, entries = [], []
    for chosen in every or [spec.named(name, folder)]:
        if case and case not in {word for one in chosen.cases for word in (one.name, one.variant)}:
            cases = ", ".join(one.name for one in chosen.cases)
            raise BadInput(f"--case {case}: no such case in {chosen.name}; its cases are {cases}")
        began = time.gmtime()
        target = out or runs_dir / "experiments" / f"{time.strftime('%Y%m%dT%H%M%S', began)}-{chosen.name}"
        cases_tried = running.experiment(chosen, runs_dir, print, times, seed, stop, case, spark_master, cluster)
        codes.append(_reported(chosen, cases_tried, target, began))
        entries += record.entries(target)
    if kept is not None:
        given = f"{name or '--all'}{f' --runs {times}' if times else ''}"
        kept.write_text(record.markdown(entries, f"harness experiment run {given} --report {kept}"))
        print(f"track record: {kept}")
    return running.worst(codes)


def _reported(chosen: Experiment, cases: Iterator[Tried], target: Path, began: time.struct_time) -> int:
    """Writes the report of an experiment into `target` after each of its cases. Returns the exit code."""
    from harness.experiments import report
    from harness.experiments import run as running

    tried: list[Tried] = []
    for one in cases:
        tried.append(one)
        report.write(target, chosen, tried, time.strftime("%Y-%m-%dT%H:%M:%SZ", began))
    if chosen.kind == "study":
        rows = report.text(report.rows(tried))
        print(
            f"\n{rows}\n(each effect: claimed | k of n runs showed it: number of records; "
            "≠ if claim and measurement differ)"
        )
    code = running.exit_code(tried)
    verdict = {0: "as expected", 1: "NOT as expected"}.get(code, "some runs could not be judged")
    print(f"\n{chosen.name}: {verdict}\nreport: {target / 'report.md'}   table: {target / 'table.csv'}")
    return code


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Result folders of experiments, as in runs/experiments/.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> int:
    """Write the track record of earlier experiments: a table with the latest results of each case."""
    from harness.experiments import record

    found = record.newest(entry for folder in folders for entry in record.entries(folder))
    text = record.markdown(found, "harness experiment run --all --report FILE")
    if out is None:
        print(text, end="")
    else:
        out.write_text(text)
        print(f"track record: {out}")
    return EXIT_VALID
