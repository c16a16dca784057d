"""The `harness inspect` command, which decodes the brokers' data directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.parameters import RunsDir
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_VALID


def inspect(
    place: Annotated[
        str,
        typer.Argument(
            help="Run folder, run id, unambiguous prefix of an id, or latest; or a folder with brokers' data folders."
        ),
    ] = "latest",
    topic: Annotated[str, typer.Option("--topic", "-t", help="Show only this topic, with every replica.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Decode the brokers' log segments, compare the replicas, and explain why records are missing.

    Exit code 1: replicas differ, a file is damaged, or a record is missing or at a wrong place.

    [bold]Examples[/bold]

      harness run --nemesis leader-kill --acks 1 --keep-data

      harness inspect latest

      harness inspect /var/lib/kafka/data --topic orders --json
    """
    from harness.history_writer import is_run
    from harness.report.text import disk_text
    from harness.stored import disk_inspection, find_runs

    path = Path(place)
    data_folder = path.is_dir() and not is_run(path) and not is_run(runs / place)
    found = disk_inspection.inspect(path if data_folder else find_runs.resolve(runs, place), topic)
    print(json.dumps(disk_text.data(found)) if as_json else disk_text.text(found, detailed=bool(topic)))
    return EXIT_VALID if found.well else EXIT_INVALID
