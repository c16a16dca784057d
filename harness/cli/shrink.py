"""`harness replay` and `harness shrink`: the same again, and the smallest that still shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.parameters import SparkMaster
from harness.model.errors_and_exit_codes import EXIT_VALID

Name = Annotated[str, typer.Argument(help="Run folder, id, unambiguous prefix, or latest.")]
RunsFolder = Annotated[Path, typer.Option("--runs-dir", envvar="HARNESS_RUNS", help="Folder that holds the runs.")]
AllowCommands = Annotated[
    bool, typer.Option("--allow-commands", help="Execute the client programs that the stored plan names.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def shrink(
    name: Name = "latest",
    anomaly: Annotated[
        str | None,
        typer.Option("--anomaly", "-a", help="An anomaly, or a witness of it, G1a#3. [default: the worst]"),
    ] = None,
    faults: Annotated[bool, typer.Option(help="Keep the faults that were on, as context.")] = True,
    schedule: Annotated[
        bool,
        typer.Option("--schedule", help="Make the plan smaller, by running it: faults, time, load."),
    ] = False,
    times: Annotated[
        int,
        typer.Option("--runs", "-n", min=1, help="With --schedule: runs of a plan; most must show it."),
    ] = 3,
    budget: Annotated[str, typer.Option(help="With --schedule: time for all runs: 45s, 30m, 2h.")] = "30m",
    allow_commands: AllowCommands = False,
    as_json: AsJson = False,
    spark_master: SparkMaster = "local[*]",
    runs: RunsFolder = Path("runs"),
) -> int:
    """Find the smallest part of a history, or of a plan, that still shows an anomaly.

    The operations are written to RUN/shrunk/, and judged again.

    [bold]Examples[/bold]

      harness shrink latest

      harness shrink latest --anomaly torn-transaction#2

      harness shrink latest --schedule --runs 3 --budget 30m
    """
    from harness.stored import find_runs

    folder = find_runs.judged(runs, name)
    result = find_runs.require_result(folder)
    if schedule:
        from harness.shrinking import shrink_schedule

        return shrink_schedule.shrink(folder, result, anomaly, times, budget, runs, spark_master, print, allow_commands)

    from harness.run import spark, test
    from harness.shrinking import shrink_run as shrinking

    options = test.options_of(folder)
    small = shrinking.of_run(folder, result, anomaly, options, faults)
    again = test.check_run(small.folder, options, spark.session_now(spark_master), lambda text: None)
    shrinking.confirm(small, again)
    if as_json:
        print(json.dumps(shrinking.data(small, again), default=str))
        return EXIT_VALID
    print(shrinking.text(small, again))
    print(f"\nnext: harness explain {small.folder}; harness shrink {folder} --schedule")
    return EXIT_VALID


def replay(
    name: Name = "latest",
    times: Annotated[int, typer.Option("--runs", "-n", min=1, help="How often.")] = 1,
    allow_commands: AllowCommands = False,
    as_json: AsJson = False,
    spark_master: SparkMaster = "local[*]",
    runs: RunsFolder = Path("runs"),
) -> int:
    """Run the same plan with the same seed again, and say how often the same anomalies came.

    Exit code 0: each of them came again (or still nothing, of a run that had none); 1: not so; 2: not known.
    """
    import sys

    from harness.run import allowed_commands
    from harness.shrinking import replay as again
    from harness.stored import find_runs

    folder = find_runs.judged(runs, name)
    before = again.bad_of(find_runs.require_result(folder))
    plan = again.plan_of(folder)

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    shown = ", ".join(f"{anomaly} {count:,}" for anomaly, count in before.items()) or "no anomaly that counts"
    say(f"{folder.name}, seed {plan.seed}: {shown}")
    commands = allowed_commands.announced(plan, "", allow_commands, say)
    repeats = again.replay(lambda: again.once(plan, runs, spark_master, commands), times, say)
    print(json.dumps(again.data(before, repeats)) if as_json else again.text(before, repeats))
    return again.exit_code(before, repeats)
