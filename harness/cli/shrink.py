"""The command `harness replay`, which repeats a run, and `harness shrink`, which reduces a run to its essentials."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.parameters import AUTO_MASTER, SparkMaster
from harness.model.errors_and_exit_codes import EXIT_VALID

Name = Annotated[str, typer.Argument(help="Run folder, run id, unambiguous prefix of an id, or latest.")]
RunsFolder = Annotated[Path, typer.Option("--runs-dir", envvar="HARNESS_RUNS", help="Folder that holds the runs.")]
AllowCommands = Annotated[
    bool, typer.Option("--allow-commands", help="Execute the client programs that the stored plan names.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def shrink(
    name: Name = "latest",
    anomaly: Annotated[
        str | None,
        typer.Option(
            "--anomaly", "-a", help="An anomaly, or one of its witnesses, such as G1a#3. [default: the worst]"
        ),
    ] = None,
    faults: Annotated[bool, typer.Option(help="Keep the faults that were active, as context.")] = True,
    schedule: Annotated[
        bool,
        typer.Option(
            "--schedule", help="Shrink the plan (faults, time, load) instead of the history, by running smaller plans."
        ),
    ] = False,
    times: Annotated[
        int,
        typer.Option(
            "--runs",
            "-n",
            min=1,
            help="With --schedule: number of runs of each smaller plan; most of them must show the anomaly.",
        ),
    ] = 3,
    budget: Annotated[
        str, typer.Option(help="With --schedule: time budget for all runs together, e.g. 45s, 30m or 2h.")
    ] = "30m",
    allow_commands: AllowCommands = False,
    as_json: AsJson = False,
    spark_master: SparkMaster = AUTO_MASTER,
    runs: RunsFolder = Path("runs"),
) -> int:
    """Find the smallest part of a history, or of a plan, that still shows an anomaly.

    The remaining operations are written to RUN/shrunk/ and checked again.

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

    from harness.run import check_and_draw, choose_spark
    from harness.shrinking import shrink_run as shrinking

    options = check_and_draw.options_of(folder)
    small = shrinking.of_run(folder, result, anomaly, options, faults)
    session, why = choose_spark.session_for(spark_master, [(small.folder, options)])
    if why:
        print(why, file=sys.stderr if as_json else sys.stdout, flush=True)
    again = check_and_draw.check_run(small.folder, options, session, lambda text: None)
    shrinking.confirm(small, again)
    if as_json:
        print(json.dumps(shrinking.data(small, again), default=str))
        return EXIT_VALID
    print(shrinking.text(small, again))
    print(f"\nnext: harness explain {small.folder}; harness shrink {folder} --schedule")
    return EXIT_VALID


def replay(
    name: Name = "latest",
    times: Annotated[int, typer.Option("--runs", "-n", min=1, help="Number of runs.")] = 1,
    allow_commands: AllowCommands = False,
    as_json: AsJson = False,
    spark_master: SparkMaster = AUTO_MASTER,
    runs: RunsFolder = Path("runs"),
) -> int:
    """Run the same plan with the same seed again, and count how often the same anomalies recur.

    Exit code 0: each anomaly recurred (or, if the run had none, no anomaly appeared); 1: otherwise; 2: undecided.
    """
    from harness.run import allowed_commands
    from harness.shrinking import replay as again
    from harness.stored import find_runs

    folder = find_runs.judged(runs, name)
    before = again.bad_of(find_runs.require_result(folder))
    plan = again.plan_of(folder)

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    shown = ", ".join(f"{anomaly} {count:,}" for anomaly, count in before.items())
    say(f"{folder.name}, seed {plan.seed}: {shown or 'no anomaly that makes the verdict invalid'}")
    commands = allowed_commands.announced(plan, "", allow_commands, say)
    repeats = again.replay(lambda: again.once(plan, runs, spark_master, commands), times, say)
    print(json.dumps(again.data(before, repeats)) if as_json else again.text(before, repeats))
    return again.exit_code(before, repeats)
