"""The commands that show stored runs: `harness list`, `show`, `explain`, `around`, `compare`, `page` and `open`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from checker.tables.storage import uri_of
from harness.cli.output import say
from harness.cli.parameters import RunsDir
from harness.model.check_result import to_data
from harness.model.errors_and_exit_codes import EXIT_VALID, BadInput

RUN = "Run folder, run id, unambiguous prefix of an id, latest, or the URI of a run."


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, default=str)


def list_(
    runs: RunsDir = Path("runs"),
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Maximum number of runs to list.")] = 30,
) -> int:
    """List the runs with their verdicts, newest first."""
    from harness.stored import find_runs

    say(find_runs.table(find_runs.rows(runs), limit))
    return EXIT_VALID


def show(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    witnesses: Annotated[
        int, typer.Option("--witnesses", "-w", min=0, help="Number of witnesses to print for each anomaly.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the content of results.json.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show the result of a run: the verdict, its reasons, and a few witnesses of each anomaly in prose."""
    from harness.report.text import summary
    from harness.stored import damaged, find_runs, staged_runs

    folder = find_runs.resolve(runs, name, staged_runs.shown)
    result = find_runs.require_result(folder)
    with damaged.reporting_damage(folder):
        output = _json(to_data(result)) if as_json else summary.summary(folder, result, witnesses)
    say(output)
    return EXIT_VALID


def explain(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    anomaly: Annotated[
        str | None, typer.Argument(help="An anomaly, such as G1a, or one of its witnesses, such as G1a#3.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Explain the anomalies of a run: each one with its first witness, or one witness in full.

    [bold]Examples[/bold]

      harness explain latest

      harness explain latest lost-write

      harness explain latest G1a#3
    """
    from harness.report.text import gather_explanation, print_explanation, witness_lookup
    from harness.stored import damaged, find_runs

    folder = find_runs.judged(runs, name)
    result = find_runs.require_result(folder)
    with damaged.reporting_damage(folder):
        if anomaly is None:
            output = _json(to_data(result)) if as_json else print_explanation.overview(folder, result)
        else:
            explained = gather_explanation.explain(folder, result, witness_lookup.named_witness(anomaly))
            output = _json(gather_explanation.data(explained)) if as_json else print_explanation.text(explained)
    say(output)
    return EXIT_VALID


def around(
    name: Annotated[
        str, typer.Argument(help="Run folder, run id, unambiguous prefix of an id, or latest; or a history.jsonl file.")
    ],
    key: Annotated[str, typer.Option("--key", "-k", help="Key of the records.")],
    offset: Annotated[int | None, typer.Option("--offset", "-o", help="Show records near this offset.")] = None,
    value: Annotated[str | None, typer.Option("--value", "-v", help="Show records near this value.")] = None,
    n: Annotated[
        int,
        typer.Option("-n", min=0, help="Number of offsets (with --value: records of a poll) to show on each side."),
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print each operation as a line of JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show the operations that sent or polled records near an offset or a value; other records are omitted.

    [bold]Examples[/bold]

      harness around latest --key 7 --offset 123

      harness around latest --key 7 --value 45 -n 5
    """
    from harness.report.text import nearby_ops
    from harness.stored import find_runs

    if (offset is None) == (value is None):
        raise BadInput("give either --offset or --value")
    history = find_runs.history(runs, name)
    place = nearby_ops.Place(nearby_ops.given(key), offset, None if value is None else nearby_ops.given(value), n)
    seen = nearby_ops.Seen()
    for op in nearby_ops.find(history, place, seen, lambda text: print(text, file=sys.stderr)):
        say(json.dumps(nearby_ops.data(op)) if as_json else nearby_ops.text(op, place))
    if not seen.ops:
        print(nearby_ops.require(seen, place, history), file=sys.stderr if as_json else sys.stdout)
    return EXIT_VALID


def compare(
    a: Annotated[str, typer.Argument(help=RUN)],
    b: Annotated[str, typer.Argument(help=RUN)],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Compare two runs: settings that differ, verdicts, anomalies, rates and latencies."""
    from harness.report.text import compare as comparing
    from harness.stored import damaged, find_runs

    folders = find_runs.judged(runs, a), find_runs.judged(runs, b)
    with damaged.reporting_damage(*folders):
        comparison = comparing.compare(*folders)
        output = _json(comparing.data(comparison)) if as_json else comparing.text(comparison)
    say(output)
    return EXIT_VALID


def page(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    runs: RunsDir = Path("runs"),
) -> int:
    """Write the page of a run again: runs/ID/report.html, which opens offline. `harness check` also writes it."""
    from harness.report.page import run_page
    from harness.stored import find_runs, staged_runs

    folder = find_runs.resolve(runs, name)
    say(f"open: {run_page.draw(folder)}")
    staged_runs.publish(folder)
    return EXIT_VALID


def open_(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    runs: RunsDir = Path("runs"),
) -> int:
    """Open the page of a run in the browser, or the run's folder if it has no page, and print the path."""
    import webbrowser

    from harness.stored import find_runs

    if (uri := uri_of(name) or uri_of(runs)) is not None:
        raise BadInput(f"{uri}: pages in a store are opened by: harness serve --runs URI")
    folder = find_runs.resolve(runs, name).resolve()
    page = folder / find_runs.PAGE
    target = page if page.is_file() else folder
    print(target, flush=True)
    try:
        webbrowser.get().open(target.as_uri())
    except webbrowser.Error:
        print("no browser was found on this machine: open the file on another one")
    return EXIT_VALID
