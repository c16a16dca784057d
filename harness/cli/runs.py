"""`harness show`, `explain`, `compare`, `page` and `open`: looking at stored runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import RunsDir
from harness.model.errors import EXIT_VALID
from harness.model.result import to_data

RUN = "Run folder, id, unambiguous prefix, or latest."


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, default=str)


def show(
    name: Annotated[str, typer.Argument(help="Run folder, id, unambiguous prefix, or latest.")] = "latest",
    witnesses: Annotated[int, typer.Option("--witnesses", "-w", min=0, help="How many of each anomaly.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show what a run found: the verdict, its reasons, and a few witnesses of each anomaly in prose."""
    from harness.report.text import summary
    from harness.stored import damaged, listing

    folder = listing.resolve(runs, name)
    result = listing.require_result(folder)
    with damaged.telling(folder):
        output = _json(to_data(result)) if as_json else summary.summary(folder, result, witnesses)
    print(output)
    return EXIT_VALID


def explain(
    name: Annotated[str, typer.Argument(help="Run folder, id, unambiguous prefix, or latest.")] = "latest",
    anomaly: Annotated[str | None, typer.Argument(help="An anomaly, G1a, or one of its witnesses, G1a#3.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Explain what was found: each anomaly with its first witness, or one witness in full.

    [bold]Examples[/bold]

      harness explain latest

      harness explain latest lost-write

      harness explain latest G1a#3
    """
    from harness.report.text import explain as explaining
    from harness.report.text import explain_text, witness_lookup
    from harness.stored import damaged, listing

    folder = listing.judged(runs, name)
    result = listing.require_result(folder)
    with damaged.telling(folder):
        if anomaly is None:
            output = _json(to_data(result)) if as_json else explain_text.overview(folder, result)
        else:
            explanation = explaining.explain(folder, result, witness_lookup.asked(anomaly))
            output = _json(explaining.data(explanation)) if as_json else explain_text.text(explanation)
    print(output)
    return EXIT_VALID


def compare(
    a: Annotated[str, typer.Argument(help=RUN)],
    b: Annotated[str, typer.Argument(help=RUN)],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show two runs side by side: settings that differ, verdicts, anomalies, rates and latencies."""
    from harness.report.text import compare as comparing
    from harness.stored import damaged, listing

    folders = listing.judged(runs, a), listing.judged(runs, b)
    with damaged.telling(*folders):
        comparison = comparing.compare(*folders)
        output = _json(comparing.data(comparison)) if as_json else comparing.text(comparison)
    print(output)
    return EXIT_VALID


def page(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    runs: RunsDir = Path("runs"),
) -> int:
    """Write the page of a run again, as each check does: runs/ID/report.html, one file that opens offline."""
    from harness.report.page import draw
    from harness.stored import listing

    print(f"open: {draw.draw(listing.resolve(runs, name))}")
    return EXIT_VALID


def open_(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    runs: RunsDir = Path("runs"),
) -> int:
    """Open the page of a run in the browser, or its folder where it has no page; print where it is."""
    import webbrowser

    from harness.stored import listing

    folder = listing.resolve(runs, name).resolve()
    page = folder / listing.PAGE
    target = page if page.is_file() else folder
    print(target, flush=True)
    try:
        webbrowser.get().open(target.as_uri())
    except webbrowser.Error:
        print("no browser was found on this machine: open it from elsewhere")
    return EXIT_VALID
