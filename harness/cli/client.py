"""`harness client`: client programs, for --client exec:COMMAND and --client NAME."""

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


@app.command("list")
def list_programs() -> int:
    """List the client programs of examples/clients, which --client accepts by name."""
    from harness.clients.exec import examples

    for name in examples.NAMES:
        example = examples.find(name)
        if example is not None:
            print(f"{name:20} {example.library} ({example.language})")
    return EXIT_VALID


@app.command()
def check(
    program: Annotated[
        str,
        typer.Argument(
            help="The command that starts the program, as one argument; or the name of a program in examples/clients."
        ),
    ],
    bootstrap: Annotated[str, typer.Option(help="Brokers to use. [default: a broker is started]")] = "",
    kafka_version: Annotated[str | None, typer.Option(help="Version of the broker that is started.")] = None,
    client_user: Annotated[str, typer.Option(help="User that the program runs as, if you are root.")] = "nobody",
    client_env: Annotated[str, typer.Option(help="Environment variables for the program, comma-separated.")] = "",
    only: Annotated[str, typer.Option(help="Run only the cases whose name contains this text.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """Check that a client program follows the protocol, and say what it can be used for.

    A case is skipped if it needs a capability that the program does not claim. Exit code 0: no case failed, except
    those that the library is known to fail (`fails` in client.yaml); 1: another case failed.

    [bold]Examples[/bold]

      harness client check ./my-client

      harness client check "node client.js --verbose" --only transaction

      harness client check franz-go
    """
    import sys

    from harness.clients.exec import command, conformance, examples
    from harness.run import build_client, check_client

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    example = examples.find(program)
    client, known = command.PREFIX + program, dict[str, str]()
    if example is not None:
        build_client.build(example, say)
        client, known = example.client, dict(example.fails)
    names = [name.strip() for name in client_env.split(",") if name.strip()]
    facts, outcomes = check_client.check(client, bootstrap, kafka_version, client_user, names, only, say, known)
    usable = conformance.workloads(facts["capabilities"], outcomes)
    counts = {
        outcome: sum(each.outcome == outcome for each in outcomes)
        for outcome in (conformance.FAILED, conformance.KNOWN, conformance.SKIPPED)
    }
    if as_json:
        print(json.dumps({**facts, "cases": [asdict(each) for each in outcomes], "usable": usable}))
    else:
        summary = f"{counts[conformance.FAILED]} of {len(outcomes)} cases failed"
        also = [f"{count} {outcome}" for outcome, count in counts.items() if count and outcome != conformance.FAILED]
        print(f"{facts['library']} {facts['version']}: {', '.join([summary, *also])}")
        for line in usable:
            print(f"  {line}")
    for name in conformance.passed_unexpectedly(outcomes, known):
        say(f"`{name}` passed, although `fails` in client.yaml lists it: remove it there if it always passes")
    return EXIT_INVALID if counts[conformance.FAILED] else EXIT_VALID
