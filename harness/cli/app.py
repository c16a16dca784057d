"""The `harness` command: registers every subcommand and turns errors into exit codes.

The commands are thin: each parses its arguments, calls the code that does the work, prints, and returns an exit code.

0 valid   1 invalid   2 unknown   254 bad arguments or a missing prerequisite   255 crash   130 interrupted
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Annotated

import typer
from typer.exceptions import TyperException

from harness.cli import (
    client,
    cluster,
    experiment,
    histories,
    image,
    inspect,
    log_model,
    matrix,
    offsets,
    qos,
    recovery,
    run,
    runs,
    serve,
    shrink,
    swarm,
)
from harness.cli.output import say
from harness.model.errors_and_exit_codes import (
    EXIT_BAD_INPUT,
    EXIT_CRASH,
    EXIT_INTERRUPTED,
    EXIT_VALID,
    NOT_OURS,
    HarnessError,
)
from harness.stored.staged_runs import with_uris

app = typer.Typer(
    name="harness",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Fault-injection tests for Kafka-like logs. Start with [bold]harness run --nemesis leader-kill[/bold].",
    epilog="Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or a missing prerequisite, "
    "255 crash, 130 interrupted.",
    pretty_exceptions_enable=False,
)


app.command("run")(run.run)
app.command("check")(histories.check)
app.command("import")(histories.import_)
app.command("export")(histories.export)
app.command("upload")(histories.upload)
app.command("list")(runs.list_)
app.command("show")(runs.show)
app.command("explain")(runs.explain)
app.command("around")(runs.around)


nemesis = typer.Typer(no_args_is_help=True, help="The faults that a run can inject.")
app.add_typer(nemesis, name="nemesis")
app.add_typer(cluster.app, name="cluster")
app.add_typer(image.app, name="image")
app.add_typer(client.app, name="client")
app.add_typer(experiment.app, name="experiment")
app.add_typer(log_model.app, name="model")
app.add_typer(recovery.app, name="recovery")
app.command("matrix")(matrix.matrix)
app.command("swarm")(swarm.swarm)
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
    """List the faults: what each one does, its targets, and the clusters it works on from this machine."""
    from dataclasses import asdict

    from harness.cli import fault_support

    found = fault_support.rows()
    say(json.dumps([asdict(row) for row in found]) if as_json else fault_support.text(found))
    return EXIT_VALID


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> int:
    """Check which clusters and faults work on this machine; for each that does not, print the reason and a fix."""
    from harness.cli.doctor import data, findings, text

    found = findings()
    say(json.dumps(data(found)) if as_json else text(found))
    return EXIT_VALID if all(finding.ok for finding in found if finding.required) else EXIT_BAD_INPUT


def main() -> None:
    """Entry point of the `harness` command. Prints every error as one message, and exits with a documented code."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code. Never raises."""
    try:
        code = app(arguments, standalone_mode=False)
        return code if isinstance(code, int) else EXIT_VALID
    except HarnessError as error:
        print(f"harness: {with_uris(str(error))}", file=sys.stderr)
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
        print(
            f"harness: {where}{error.strerror}; free some space or fix the permissions, and try again",
            file=sys.stderr,
        )
        return EXIT_BAD_INPUT
    except Exception as error:
        return _crashed(error)


def _crashed(error: Exception) -> int:
    """Prints an unexpected error on one line and returns the exit code of a crash.

    The cause is a bug of the harness, or a state of the machine that the code does not handle.
    """
    first = (str(error).splitlines() or [""])[0]  # some messages are a page long
    print(f"harness: crashed: {type(error).__name__}: {first}", file=sys.stderr)
    if os.environ.get("HARNESS_DEBUG"):
        traceback.print_exception(error)
    else:
        print("harness: set HARNESS_DEBUG=1 to see the traceback", file=sys.stderr)
    return EXIT_CRASH


if __name__ == "__main__":
    main()
