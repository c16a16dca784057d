"""The `harness serve` command, which shows stored runs in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from checker.tables.storage import uri_of
from harness.cli.output import say
from harness.cli.parameters import RunsDir
from harness.model.errors_and_exit_codes import EXIT_VALID


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: any free port.")] = 8080,
    export: Annotated[
        Path | None, typer.Option(help="Write the pages as files to this new folder instead of serving them.")
    ] = None,
    runs: RunsDir = Path("runs"),
) -> int:
    """Serve the runs to a browser on this machine: list, pages, files, comparisons, and runs in progress.

    [bold]Examples[/bold]

      harness serve

      harness serve --runs runs --port 9000

      harness serve --export site
    """
    from harness.stored import staged_runs
    from harness.web import server, static_site

    if (uri := uri_of(runs)) is not None:
        print(f"copying the runs at {uri} to this machine, without histories, tables and logs", flush=True)
        runs = staged_runs.stage_all(uri, staged_runs.pages)
    if export is not None:
        count = static_site.export(runs, export, lambda text: print(text, file=sys.stderr, flush=True))
        print(f"open: {export / 'index.html'} ({count:,} run{'' if count == 1 else 's'})")
        return EXIT_VALID
    with server.made(runs, port, lambda text: print(f"harness: {text}", file=sys.stderr, flush=True)) as made:
        missing = "" if runs.is_dir() else " (the folder does not exist yet)"
        address = f"http://{server.ADDRESS}:{made.port}/"
        say(f"serving the runs of folder {runs}{missing} at {address}   (Ctrl-C to stop)")
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            print()
    return EXIT_VALID
