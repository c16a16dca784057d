"""`harness compare`, `harness page` and `harness open`: looking at stored runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.model.errors import EXIT_VALID
from harness.run_options import RunsDir

RUN = "Run folder, id, unambiguous prefix, or latest."


def compare(
    a: Annotated[str, typer.Argument(help=RUN)],
    b: Annotated[str, typer.Argument(help=RUN)],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show two runs side by side: settings that differ, verdicts, anomalies, rates and latencies."""
    from harness.report import compare as comparing
    from harness.report import listing

    found = comparing.compare(listing.judged(runs, a), listing.judged(runs, b))
    print(json.dumps(comparing.data(found), default=str) if as_json else comparing.text(found))
    return EXIT_VALID


def page(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    runs: RunsDir = Path("runs"),
) -> int:
    """Write the page of a run again, as each check does: runs/ID/report.html, one file that opens offline."""
    from harness.report import listing
    from harness.report.page import draw

    print(f"open: {draw.draw(listing.resolve(runs, name))}")
    return EXIT_VALID


def open_(
    name: Annotated[str, typer.Argument(help=RUN)] = "latest",
    runs: RunsDir = Path("runs"),
) -> int:
    """Open the page of a run in the browser, or its folder where it has no page; print where it is."""
    import webbrowser

    from harness.report import listing

    folder = listing.resolve(runs, name).resolve()
    page = folder / listing.PAGE
    found = page if page.is_file() else folder
    print(found, flush=True)
    try:
        webbrowser.get().open(found.as_uri())
    except webbrowser.Error:
        print("no browser was found on this machine: open it from elsewhere")
    return EXIT_VALID
