"""`harness cluster`: clusters that stay, and what is left of those that do not."""

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
from harness.run.attached_cluster import OF_CLUSTER

app = typer.Typer(no_args_is_help=True, help="Clusters that stay for many runs, and what is left of others.")

Name = Annotated[str, typer.Argument(help="Name of the cluster. [default: the only one that is up]")]
Of = Annotated[str, typer.Option("--name", help="Name of the cluster. [default: the only one that is up]")]
Kind = Annotated[str, typer.Option("--cluster", help="local, docker or ssh. [default: any]")]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
UP: tuple[str, ...] = ("cluster", *OF_CLUSTER, "nemesis", "min_insync_replicas")
FOLLOW_S = 0.5


@app.callback()
def _cluster() -> None:
    """Clusters that stay for many runs, and what is left of others."""


def _say(text: str) -> None:
    print(text, flush=True)


@app.command()
@partial(with_options, fields=UP)
def up(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(help="A name for it.")] = "default",
    **options: Any,
) -> int:
    """Start a cluster that stays, for many runs.

    --nemesis names the faults that runs will use: some need a disk or a clock for each node from the start.

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
    force: Annotated[bool, typer.Option(help="Even while a run holds it.")] = False,
) -> int:
    """End a cluster and remove everything of it."""
    from harness.cluster.persistent import client
    from harness.persistent import lifecycle

    chosen = name or client.find("", cluster).name
    lifecycle.stop(chosen, force, _say)
    _say(f"the cluster {chosen} is down")
    return EXIT_VALID


@app.command()
def status(name: Name = "", cluster: Kind = "", as_json: AsJson = False) -> int:
    """Say of each cluster that is up: its nodes, what they lead, since when, who holds it."""
    from harness.persistent import commands

    found = commands.status(name, cluster)
    _say(json.dumps(found) if as_json else commands.text(found))
    return EXIT_VALID


@app.command()
def logs(
    node: Annotated[str, typer.Argument(help="A node. [default: all of them]")] = "",
    name: Of = "",
    cluster: Kind = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("-n", min=0, help="How many lines of what is there.")] = 50,
) -> int:
    """Print the server logs of a cluster that is up."""
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
    command: Annotated[list[str] | None, typer.Argument(help="After --: a command. [default: a shell]")] = None,
    name: Of = "",
    cluster: Kind = "",
) -> int:
    """A shell where a node runs, in its network, with Kafka's tools; or one command.

    [bold]Examples[/bold]

      harness cluster shell n1

      harness cluster shell n1 -- kafka-topics.sh --bootstrap-server $BOOTSTRAP --list
    """
    from harness.persistent import commands

    return commands.shell(name, cluster, node, command or [], _say)


@app.command()
def clean(
    cluster: Annotated[str, typer.Option("--cluster", help="local, docker or ssh.")] = "local",
    hosts: Annotated[str, typer.Option(help="With --cluster ssh: the file of the hosts.")] = "",
    runs: RunsDir = Path("runs"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
    as_json: AsJson = False,
) -> int:
    """List what runs and clusters that were killed have left, and remove it when you say so."""
    from harness.persistent import leftovers_of_killed_runs

    found = leftovers_of_killed_runs.find(cluster, runs, hosts)
    if as_json:
        _say(json.dumps([one.as_dict() for one in found]))
    else:
        for one in found:
            _say(f"{one.kind:10} {one.name}{f'   ({one.about})' if one.about else ''}")
    if not found:
        if not as_json:
            _say("nothing is left")
        return EXIT_VALID
    if not yes:
        if as_json or not sys.stdin.isatty():
            _say("") if not as_json else None
            print(f"nothing was removed: give --yes to remove these {len(found)}", file=sys.stderr)
            return EXIT_VALID
        if not typer.confirm(f"remove these {len(found)}?"):
            return EXIT_VALID
    failed = leftovers_of_killed_runs.remove(found, lambda text: print(text, file=sys.stderr))
    if not as_json:
        _say(f"removed {len(found) - failed}")
    return EXIT_BAD_INPUT if failed else EXIT_VALID
