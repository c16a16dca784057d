"""The `harness run` command, which runs one test and judges it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from checker.tables.storage import uri_of
from harness.cli import recovery
from harness.cli.output import VERDICT_EXIT, say
from harness.cli.parameters import FAULTS, RunsDir, SparkMaster, given, with_options
from harness.model.errors_and_exit_codes import EXIT_BAD_INPUT, EXIT_INTERRUPTED


@with_options
def run(
    ctx: typer.Context,
    *,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A plan.yaml to run; options on the command line override it.")
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(
            "--schedule",
            rich_help_panel=FAULTS,
            help="A YAML list of faults, each with its own interval or trigger.",
        ),
    ] = None,
    app: Annotated[
        Path | None,
        typer.Option("--app", help="With --workload app: an app.yaml that describes your application."),
    ] = None,
    spark_master: SparkMaster = "local[*]",
    runs: RunsDir = Path("runs"),
    allow_commands: Annotated[
        bool,
        typer.Option("--allow-commands", help="Execute the commands that the plan file names."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the progress line.")] = False,
    **options: Any,
) -> int:
    """Run a test: start the cluster, apply load and faults, heal, read everything back, and check the history.

    [bold]Examples[/bold]

      harness run --nemesis leader-kill --acks all

      harness run --nemesis leader-isolate --acks 1 --time-limit 60

      harness run --cluster mock --txn --time-limit 10

      harness run --schedule faults.yaml --acks all --txn

      harness run --plan runs/latest/plan.yaml

      harness run --runs s3://bucket/runs
    """
    from harness.plan import from_options
    from harness.report.text import next_steps
    from harness.run import allowed_commands, test, uploads

    options_given = given(ctx)
    uri = uri_of(runs)
    typed = str(options_given.get("client") or "")
    if options_given.get("workload") == "recovery" and recovery.several(options_given.get("scenario"), plan):
        return recovery.run_several(options_given, schedule, runs, spark_master, quiet)
    chosen, where = from_options.gather(options_given, plan, schedule, app)
    commands = allowed_commands.announced(chosen, typed, allow_commands, say, app is not None)
    uploading = None if uri is None else uploads.LiveUpload(uri)
    folder = runs if uri is None else Path("runs")
    outcome = test.run(chosen, folder, say, spark_master, quiet, where, commands, uploading=uploading)
    say("")
    say(next_steps.text(outcome.folder, outcome.result))
    if uploading is not None and not uploading.complete:
        return EXIT_BAD_INPUT
    return EXIT_INTERRUPTED if outcome.interrupted else VERDICT_EXIT[outcome.result.valid]
