"""The command line: thin. Each command parses, calls, prints, and returns an exit code.

0 valid   1 invalid   2 unknown   254 bad arguments, or something missing   255 crash   130 interrupted
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from harness.cli import (
    cluster,
    experiment,
    image,
    inspect,
    log_model,
    matrix,
    offsets,
    qos,
    recovery,
    runs,
    serve,
    shrink,
)
from harness.cli.options import FAULTS, RunsDir, SparkMaster, given, with_options
from harness.model.errors import (
    EXIT_BAD_INPUT,
    EXIT_CRASH,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    NOT_OURS,
    HarnessError,
)
from harness.model.result import Verdict, worst

app = typer.Typer(
    name="harness",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Fault-injection tests for Kafka-like logs. Start with [bold]harness run --nemesis leader-kill[/bold].",
    epilog="Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or something missing, "
    "255 crash, 130 interrupted.",
    pretty_exceptions_enable=False,
)

VERDICT_EXIT = {"valid": EXIT_VALID, "invalid": EXIT_INVALID, "unknown": EXIT_UNKNOWN}


def say(text: str) -> None:
    print(text, flush=True)


@app.command()
@with_options
def run(
    ctx: typer.Context,
    *,
    plan: Annotated[Path | None, typer.Option("--plan", help="A plan.yaml; options given here win.")] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(
            "--schedule",
            rich_help_panel=FAULTS,
            help="A YAML list of faults, each with its own rhythm or trigger.",
        ),
    ] = None,
    spark_master: SparkMaster = "local[*]",
    runs: RunsDir = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress line.")] = False,
    **options: Any,
) -> int:
    """Run a test: start the cluster, apply load and faults, heal, read everything back, and judge.

    [bold]Examples[/bold]

      harness run --nemesis leader-kill --acks all

      harness run --nemesis leader-isolate --acks 1 --time-limit 60

      harness run --cluster mock --txn --time-limit 10

      harness run --schedule faults.yaml --acks all --txn

      harness run --plan runs/latest/plan.yaml
    """
    from harness.plan import from_options
    from harness.report.text import next_steps
    from harness.run import test

    options_given = given(ctx)
    if options_given.get("workload") == "recovery" and recovery.several(options_given.get("scenario"), plan):
        return recovery.run_several(options_given, schedule, runs, spark_master, quiet)
    chosen, where = from_options.gather(options_given, plan, schedule)
    outcome = test.run(chosen, runs, say, spark_master, quiet, where)
    say("")
    say(next_steps.text(outcome.folder, outcome.result))
    return EXIT_INTERRUPTED if outcome.interrupted else VERDICT_EXIT[outcome.result.valid]


def _some_of(option: str, text: str, known: Sequence[str]) -> frozenset[str]:
    """The names in a comma-separated option. Raises BadInput."""
    from harness.model.errors import BadInput

    names = frozenset(part.strip() for part in text.split(","))
    if not names <= set(known):
        raise BadInput(f"{option} {text}: any of {', '.join(known)}, with commas")
    return names


@app.command()
def check(
    ctx: typer.Context,
    histories: Annotated[
        list[str], typer.Argument(help="Runs, Parquet folders, or files: .jsonl, .edn, plain or gzipped.")
    ],
    jepsen_compatible: Annotated[bool, typer.Option(help="Judge exactly as Jepsen.")] = False,
    ww_deps: Annotated[bool, typer.Option(help="Offsets imply write order.")] = True,
    sub_via: Annotated[str | None, typer.Option(help="assign, subscribe, or assign,subscribe.")] = None,
    edges: Annotated[
        str | None, typer.Option(help="What cycles are made of: of ww, wr, rw, process, realtime.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each.")] = False,
    spark_master: SparkMaster = "local[*]",
    runs: RunsDir = Path("runs"),
) -> int:
    """Judge stored histories again; needs no cluster. A truncated one is judged up to its last whole line."""
    from harness.model.options import EDGES
    from harness.report.text import summary
    from harness.run import spark, test
    from harness.run.histories import bytes_of, find, judge, line
    from harness.run.histories import options as options_of
    from harness.store import is_run

    options_given = given(ctx)
    changed = {"jepsen_compatible", "ww_deps"} & options_given.keys()
    changes: dict[str, Any] = {name: options_given[name] for name in changed}
    if edges is not None:
        changes["edges"] = _some_of("--edges", edges, EDGES)
    if sub_via is not None:
        changes["sub_via"] = _some_of("--sub-via", sub_via, ("assign", "subscribe"))
    paths = [find(runs, name) for name in histories]
    items = [(path, options_of(path, changes)) for path in paths]
    session = spark.session_now(spark_master, sum(map(bytes_of, paths)))
    verdicts: list[Verdict] = []
    for path, result, wrong in judge(items, session, (lambda text: None) if as_json else say):
        verdicts.append(result.valid)
        if wrong:  # the others are judged all the same
            print(f"harness: {wrong}", file=sys.stderr)
        if as_json:
            say(json.dumps(line(path, result), default=str))
        elif not wrong:
            say(summary.summary(path, result))
            if is_run(path):
                test.draw(path, say)
    return VERDICT_EXIT[worst(*verdicts)]


@app.command("import")
def import_(
    history: Annotated[Path, typer.Argument(help="A history.edn or history.jsonl, plain or gzipped.")],
    runs: RunsDir = Path("runs"),
) -> int:
    """Make a run folder of a history that this project did not produce, to check, show and list it."""
    from harness.run import histories

    folder = histories.import_(history, runs, say)
    say(f"next: harness check {folder}")
    return EXIT_VALID


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="Run folder, id, unambiguous prefix, latest; or a file.")],
    form: Annotated[str, typer.Option("--format", help="edn, jsonl or parquet.")] = "edn",
    out: Annotated[
        Path | None, typer.Option(help="Where to; with .gz at its end, gzipped. [default: NAME.FORMAT]")
    ] = None,
    runs: RunsDir = Path("runs"),
) -> int:
    """Write a history as Jepsen's EDN, as one log, or as a Parquet folder, which `harness check` takes."""
    from harness.run import histories

    histories.export(histories.find(runs, name), form, out, say)
    return EXIT_VALID


@app.command("list")
def list_(
    runs: RunsDir = Path("runs"),
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most this many, the newest first.")] = 30,
) -> int:
    """List the runs, the newest first, with their verdicts."""
    from harness.stored import listing

    say(listing.table(listing.rows(runs), limit))
    return EXIT_VALID


app.command("show")(runs.show)
app.command("explain")(runs.explain)


@app.command()
def around(
    name: Annotated[str, typer.Argument(help="Run folder, id, unambiguous prefix, latest, or history.jsonl.")],
    key: Annotated[str, typer.Option("--key", "-k", help="The key.")],
    offset: Annotated[int | None, typer.Option("--offset", "-o", help="Around this offset.")] = None,
    value: Annotated[str | None, typer.Option("--value", "-v", help="Around this value.")] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many offsets, or records of a poll, around it.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print each op as a line of JSON.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show the operations that sent or polled the records around a place, trimmed to those.

    [bold]Examples[/bold]

      harness around latest --key 7 --offset 123

      harness around latest --key 7 --value 45 -n 5
    """
    from harness.model.errors import BadInput
    from harness.report.text import nearby_ops
    from harness.stored import listing

    if (offset is None) == (value is None):
        raise BadInput("give either --offset or --value, the place to look around")
    history = listing.history(runs, name)
    place = nearby_ops.Place(nearby_ops.given(key), offset, None if value is None else nearby_ops.given(value), n)
    seen = nearby_ops.Seen()
    for op in nearby_ops.find(history, place, seen, lambda text: print(text, file=sys.stderr)):
        say(json.dumps(nearby_ops.data(op)) if as_json else nearby_ops.text(op, place))
    if not seen.ops:
        print(nearby_ops.require(seen, place, history), file=sys.stderr if as_json else sys.stdout)
    return EXIT_VALID


nemesis = typer.Typer(no_args_is_help=True, help="The faults that a run can inject.")
app.add_typer(nemesis, name="nemesis")
app.add_typer(cluster.app, name="cluster")
app.add_typer(image.app, name="image")
app.add_typer(experiment.app, name="experiment")
app.add_typer(log_model.app, name="model")
app.add_typer(recovery.app, name="recovery")
app.command("matrix")(matrix.matrix)
app.command("compare")(runs.compare)
app.command("page")(runs.page)
app.command("open")(runs.open_)
app.command("serve")(serve.serve)
app.command("inspect")(inspect.inspect)
app.command("qos")(qos.qos)
app.command("offsets")(offsets.offsets)
app.command("replay")(shrink.replay)
app.command("shrink")(shrink.shrink)


@nemesis.callback()
def _nemesis() -> None:
    """The faults that a run can inject."""


@nemesis.command("list")
def nemesis_list(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> int:
    """List the faults: what each does, its targets, and where it runs on this machine."""
    from dataclasses import asdict

    from harness.cli import fault_support

    found = fault_support.rows()
    say(json.dumps([asdict(row) for row in found]) if as_json else fault_support.text(found))
    return EXIT_VALID


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> int:
    """Say what this machine can run, what it cannot, why, and the one-line fix."""
    from harness.cli.doctor import data, findings, text

    found = findings()
    say(json.dumps(data(found)) if as_json else text(found))
    return EXIT_VALID if all(finding.ok for finding in found if finding.required) else EXIT_BAD_INPUT


def main() -> None:
    """Entry point: every error is one message and the documented exit code."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Run the command line; the exit code. Never raises."""
    try:
        code = app(arguments, standalone_mode=False)
        return code if isinstance(code, int) else EXIT_VALID
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return error.exit_code
    except TyperException as error:
        message = error.format_message()
        print(f"harness: {message}" if message else "", file=sys.stderr)
        print(
            "harness: `harness --help` lists the commands, `harness COMMAND --help` the options",
            file=sys.stderr,
        )
        return EXIT_BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        print("harness: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_VALID
    except OSError as error:
        if error.errno not in NOT_OURS:
            return _crashed(error)
        where = f"{error.filename}: " if error.filename else ""
        print(f"harness: {where}{error.strerror}; make room or allow it, and try again", file=sys.stderr)
        return EXIT_BAD_INPUT
    except Exception as error:
        return _crashed(error)


def _crashed(error: Exception) -> int:
    """Say what happened in one line: it is a bug, or a machine in a state that nobody thought of."""
    first = (str(error).splitlines() or [""])[0]  # some say a page
    print(f"harness: crashed: {type(error).__name__}: {first}", file=sys.stderr)
    if os.environ.get("HARNESS_DEBUG"):
        traceback.print_exception(error)
    else:
        print("harness: set HARNESS_DEBUG=1 to see where", file=sys.stderr)
    return EXIT_CRASH


if __name__ == "__main__":
    main()
