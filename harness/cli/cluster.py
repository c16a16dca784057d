"""The `harness cluster` commands: persistent clusters, and the leftovers of killed runs and clusters."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.parameters import RunsDir, with_options
from harness.model.errors_and_exit_codes import EXIT_BAD_INPUT, EXIT_VALID
from harness.plan.test_plan import OF_CLUSTER

HELP = "Persistent clusters that many runs share, and the leftovers of killed runs."

app = typer.Typer(no_args_is_help=True, help=HELP)

Name = Annotated[str, typer.Argument(help="Name of the cluster. [default: the only one that is running]")]
NameOption = Annotated[str, typer.Option("--name", help="Name of the cluster. [default: the only one that is running]")]
Kind = Annotated[str, typer.Option("--cluster", help="Kind of cluster: local, docker or ssh. [default: any]")]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
UP: tuple[str, ...] = ("cluster", *OF_CLUSTER, "nemesis", "min_insync_replicas")
FOLLOW_S = 0.5


@app.callback()
def _cluster() -> None:
    """Persistent clusters that many runs share, and the leftovers of killed runs."""


def _say(text: str) -> None:
    print(text, flush=True)


@app.command()
@partial(with_options, fields=UP)
def up(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(help="Name of the new cluster.")] = "default",
    **options: Any,
) -> int:
    """Start a persistent cluster that many runs can use.

    With --nemesis, list the faults that the runs will inject: some of them need a separate disk or clock for each
    node, which must be set up when the cluster starts.

    [bold]Examples[/bold]

      harness cluster up

      harness cluster up disks --nodes 5 --nemesis power-loss:all

      harness run --cluster local:default --nemesis leader-kill
    """
    from harness.cli.parameters import given
    from harness.persistent import lifecycle
    from harness.plan import from_options

    chosen, _ = from_options.gather({key: value for key, value in given(ctx).items() if key in UP}, None, None)
    state = lifecycle.start(name, chosen, _say)
    _say(f"up: harness run --cluster {state.kind}:{state.name}; harness cluster down {state.name}")
    return EXIT_VALID


@app.command()
def down(
    name: Name = "",
    cluster: Kind = "",
    force: Annotated[bool, typer.Option(help="Stop the cluster even if a run is using it.")] = False,
) -> int:
    """Stop a cluster and remove its data."""
    from harness.cluster.persistent import client
    from harness.persistent import lifecycle

    chosen = name or client.find("", cluster).name
    lifecycle.stop(chosen, force, _say)
    _say(f"cluster {chosen} is down")
    return EXIT_VALID


@app.command()
def status(name: Name = "", cluster: Kind = "", as_json: AsJson = False) -> int:
    """Show each running cluster: its nodes, the partitions they lead, its start time, and the run that uses it."""
    from harness.persistent import commands

    found = commands.status(name, cluster)
    _say(json.dumps(found) if as_json else commands.text(found))
    return EXIT_VALID


@app.command()
def logs(
    node: Annotated[str, typer.Argument(help="A node. [default: all nodes]")] = "",
    name: NameOption = "",
    cluster: Kind = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("-n", min=0, help="Number of existing lines to print.")] = 50,
) -> int:
    """Print the server logs of a running cluster."""
    from harness.persistent import commands

    shown = commands.Logs(name, cluster, node)
    for line in shown.last(lines):
        _say(line)
    while follow:
        time.sleep(FOLLOW_S)
        for line in shown.more():
            _say(line)
    return EXIT_VALID


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    node: Annotated[str, typer.Argument(help="A node.")],
    command: Annotated[list[str] | None, typer.Argument(help="A command, after --. [default: a shell]")] = None,
    name: NameOption = "",
    cluster: Kind = "",
) -> int:
    """Open a shell in a node's environment, with its network and Kafka's tools, or run one command there.

    [bold]Examples[/bold]

      harness cluster shell n1

      harness cluster shell n1 -- kafka-topics.sh --bootstrap-server $BOOTSTRAP --list
    """
    from harness.persistent import commands

    return commands.shell(name, cluster, node, command or [], _say)


@app.command()
def clean(
    cluster: Annotated[str, typer.Option("--cluster", help="Where to look: local, docker or ssh.")] = "local",
    hosts: Annotated[str, typer.Option(help="The hosts file, with --cluster ssh.")] = "",
    runs: RunsDir = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the leftovers of killed runs and clusters, and remove them after confirmation."""
    from harness.persistent import leftovers_of_killed_runs

    found = leftovers_of_killed_runs.find(cluster, runs, hosts)
    if as_json:
        _say(json.dumps([one.as_dict() for one in found]))
    else:
        for one in found:
            _say(f"{one.kind:10} {one.name}{f'   ({one.about})' if one.about else ''}")
    if not found:
        if not as_json:
            _say("no leftovers were found")
        return EXIT_VALID
    if not yes:
        if as_json or not sys.stdin.isatty():
            _say("") if not as_json else None
            print(f"nothing was removed: add --yes to remove these {len(found)} leftovers", file=sys.stderr)
            return EXIT_VALID
        if not typer.confirm(f"remove these {len(found)} leftovers?"):
            return EXIT_VALID
    failed = leftovers_of_killed_runs.remove(found, lambda text: print(text, file=sys.stderr))
    if not as_json:
        _say(f"removed {len(found) - failed}")
    return EXIT_BAD_INPUT if failed else EXIT_VALID
