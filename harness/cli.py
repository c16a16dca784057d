"""The command line: thin. Each command parses, calls, prints, and returns an exit code.

0 valid   1 invalid   2 unknown   254 bad arguments, or something missing   255 crash   130 interrupted
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from harness.model.errors import (
    EXIT_BAD_INPUT,
    EXIT_CRASH,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    HarnessError,
)
from harness.model.result import Result, to_data
from harness.run_options import RunsDir, SparkMaster, plan_values, with_options

app = typer.Typer(
    name="harness",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Fault-injection tests for Kafka-like logs. "
    "Start with [bold]harness run --nemesis leader-kill[/bold].",
    epilog="Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or something missing, "
    "255 crash, 130 interrupted.",
    pretty_exceptions_enable=False,
)

# A full or read-only disk, a permission: the machine's, not a bug.
NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
VERDICT_EXIT = {"valid": EXIT_VALID, "invalid": EXIT_INVALID, "unknown": EXIT_UNKNOWN}


def say(text: str) -> None:
    print(text, flush=True)


def given(ctx: typer.Context) -> dict[str, Any]:
    """The options that the user gave, rather than those that have their default."""
    return {
        name: value
        for name, value in ctx.params.items()
        if getattr(ctx.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"
    }


@app.command()
@with_options
def run(
    ctx: typer.Context,
    *,
    plan: Annotated[Path | None, typer.Option("--plan", help="A plan.yaml; options given here win.")] = None,
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

      harness run --plan runs/latest/plan.yaml
    """
    from harness import assemble
    from harness import plan as plans
    from harness.model.errors import BadInput

    base = plans.load_data(plan) if plan is not None else {}
    try:
        chosen = plans.make(plan_values(given(ctx), base))
    except BadInput as error:
        raise error if plan is None else BadInput(f"{plan}, with the options given: {error}") from None
    outcome = assemble.run(chosen, runs, say, spark_master, quiet)
    say(f"next: harness show {outcome.folder}")
    return EXIT_INTERRUPTED if outcome.interrupted else VERDICT_EXIT[outcome.result.valid]


@app.command()
def check(
    ctx: typer.Context,
    histories: Annotated[list[str], typer.Argument(help="Run folders or their names, or history files.")],
    jepsen_compatible: Annotated[bool, typer.Option(help="Judge exactly as Jepsen.")] = False,
    ww_deps: Annotated[bool, typer.Option(help="Offsets imply write order.")] = True,
    sub_via: Annotated[str | None, typer.Option(help="assign, subscribe, or assign,subscribe.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json.")] = False,
    spark_master: SparkMaster = "local[*]",
    runs: RunsDir = Path("runs"),
) -> int:
    """Judge stored histories again; needs no cluster. A truncated one is judged up to its last whole line."""
    from harness import assemble, spark, store
    from harness.model.errors import BadHistory, BadInput
    from harness.model.result import worst
    from harness.report import listing, prose

    told = given(ctx)
    changes: dict[str, Any] = {name: told[name] for name in ("jepsen_compatible", "ww_deps") if name in told}
    if sub_via is not None:
        changes["sub_via"] = frozenset(part.strip() for part in sub_via.split(","))
        if not changes["sub_via"] <= {"assign", "subscribe"}:
            raise BadInput(f"--sub-via {sub_via}: assign, subscribe, or both with a comma")
    paths = [path if (path := Path(name)).is_file() else listing.resolve(runs, name) for name in histories]
    stored_at = {path: store.require_run(path) for path in paths if path.is_dir()}
    options = [assemble.options_of(stored_at.get(path, path.parent / "-"), **changes) for path in paths]
    session = spark.session_now(spark_master)
    results: list[Result] = []
    for path, how in zip(paths, options, strict=True):
        stored = path in stored_at
        try:
            result = assemble.check_run(path, how, session, (lambda text: None) if as_json else say, stored)
        except BadHistory as error:  # the others are judged all the same
            print(f"harness: {error}", file=sys.stderr)
            results.append(Result("unknown", reasons=(str(error),)))
            if as_json:
                say(json.dumps({"history": path.name, **to_data(results[-1])}))
            continue
        results.append(result)
        if as_json:
            say(json.dumps({"history": path.name, **to_data(result)}, default=str))
        else:
            say(prose.summary(path, result))
            if stored:
                assemble.draw(path, say)
    return VERDICT_EXIT[worst(*(result.valid for result in results))]


@app.command("list")
def list_(
    runs: RunsDir = Path("runs"),
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="At most this many, the newest first.")
    ] = 30,
) -> int:
    """List the runs, the newest first, with their verdicts."""
    from harness.report import listing

    say(listing.table(listing.rows(runs), limit))
    return EXIT_VALID


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Run folder, id, unambiguous prefix, or latest.")] = "latest",
    witnesses: Annotated[int, typer.Option("--witnesses", "-w", min=0, help="How many of each anomaly.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json.")] = False,
    runs: RunsDir = Path("runs"),
) -> int:
    """Show what a run found: the verdict, its reasons, and a few witnesses of each anomaly in prose."""
    from harness.model.errors import BadInput
    from harness.report import listing, prose

    folder = listing.resolve(runs, name)
    result = listing.result_of(folder)
    if result is None:
        raise BadInput(f"{folder}: not judged yet (no results.json); run: harness check {folder}")
    say(json.dumps(to_data(result), default=str) if as_json else prose.summary(folder, result, witnesses))
    return EXIT_VALID


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> int:
    """Say what this machine can run, what it cannot, why, and the one-line fix."""
    from dataclasses import asdict

    from harness.cluster import doctor as probes

    checks = probes.probe()
    if as_json:
        say(json.dumps([asdict(check) for check in checks]))
    else:
        for one in checks:
            say(
                f"{'yes' if one.ok else 'no ':3}  {one.name:24} {one.why}"
                + (f"\n     fix: {one.fix}" if one.fix else "")
            )
    return EXIT_VALID if all(one.ok for one in checks if one.required) else EXIT_BAD_INPUT


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
