"""`harness client`: client programs, for --client exec:COMMAND."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_VALID

app = typer.Typer(no_args_is_help=True, help="Client programs, for --client exec:COMMAND.")


@app.callback()
def _client() -> None:
    """Client programs, for --client exec:COMMAND."""


@app.command()
def check(
    command: Annotated[str, typer.Argument(help="The command that starts the program, as one argument.")],
    bootstrap: Annotated[str, typer.Option(help="Brokers to use. [default: a broker is started]")] = "",
    kafka_version: Annotated[str | None, typer.Option(help="Version of the broker that is started.")] = None,
    client_user: Annotated[str, typer.Option(help="User that the program runs as, if you are root.")] = "nobody",
    client_env: Annotated[str, typer.Option(help="Environment variables for the program, comma-separated.")] = "",
    only: Annotated[str, typer.Option(help="Run only the cases whose name contains this text.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """Check that a client program follows the protocol, and say what it can be used for.

    Exit code 0: every case passed, or needs a capability that the program does not claim; 1: a case failed.

    [bold]Examples[/bold]

      harness client check ./my-client

      harness client check "node client.js --verbose" --only transaction
    """
    import sys

    from harness.clients.exec import conformance
    from harness.run import check_client

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    names = [name.strip() for name in client_env.split(",") if name.strip()]
    facts, outcomes = check_client.check(command, bootstrap, kafka_version, client_user, names, only, say)
    usable = conformance.workloads(facts["capabilities"], outcomes)
    failures = sum(each.outcome == conformance.FAILED for each in outcomes)
    if as_json:
        print(json.dumps({**facts, "cases": [asdict(each) for each in outcomes], "usable": usable}))
    else:
        print(f"{facts['library']} {facts['version']}: {failures} of {len(outcomes)} cases failed")
        for line in usable:
            print(f"  {line}")
    return EXIT_INVALID if failures else EXIT_VALID
