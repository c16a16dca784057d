"""The `harness offsets` command, which checks consumer offsets from the log files of any application."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.parameters import SparkMaster
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID


def offsets(
    files: Annotated[list[Path], typer.Argument(help="Log files, plain or gzipped.", metavar="LOG...")],
    pattern: Annotated[
        Path,
        typer.Option(
            help="A YAML file with the patterns of the log lines that contain offsets; "
            "or java, for the Java client's own log lines."
        ),
    ] = Path("java"),
    markers: Annotated[
        int,
        typer.Option(min=0, help="Ignore gaps of up to this many offsets, because transaction markers occupy offsets."),
    ] = 0,
    witnesses: Annotated[
        int, typer.Option("--witnesses", "-w", min=0, help="Number of witnesses to print for each anomaly.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    spark_master: SparkMaster = "local[*]",
) -> int:
    """Reconstruct from log files what the consumers of a group did, and check that their offsets are consistent.

    Exit code 0: no anomaly; 1: an anomaly was found; 2: the logs contain too little to decide.

    [bold]Examples[/bold]

      harness offsets --pattern java pod-*.log

      harness offsets --pattern ours.yaml --markers 1 service.log.gz
    """
    from checker.pipeline import judge
    from harness.model.check_result import to_data
    from harness.model.errors_and_exit_codes import BadInput
    from harness.report.text import pipeline_text
    from harness.run import spark
    from harness.stored import log_pattern

    spark.require(spark_master, "harness offsets")
    found = log_pattern.load(pattern)
    for file in files:
        if not file.is_file():
            raise BadInput(f"{file}: no such file; choose one or more log files")
    result = judge.of_logs(spark.session_now(spark_master), files, found, markers)
    print(json.dumps(to_data(result)) if as_json else pipeline_text.of_logs(result, witnesses))
    return {"valid": EXIT_VALID, "invalid": EXIT_INVALID, "unknown": EXIT_UNKNOWN}[result.valid]
