"""The `harness model` commands, which compare a log under test with the log model step by step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_VALID

if TYPE_CHECKING:
    from harness.sim.log_model.action_types import Action
    from harness.sim.log_model.records import LogSettings
    from workloads.log_model.session import Divergence

app = typer.Typer(
    no_args_is_help=True, help="Compare a partition's log with a model of its correct behaviour, step by step."
)
Bugs = Annotated[
    str, typer.Option("--bug", help="Bugs to switch on in the log under test, separated by commas; see `bugs`.")
]
PROGRAM_BYTES_MAX = 1 << 20


@app.callback()
def _app() -> None:
    """Compare a partition's log with a model of its correct behaviour, step by step."""


def _bugs(text: str) -> tuple[str, ...]:
    """Returns the bugs that --bug lists. Raises BadInput for an unknown bug."""
    from harness.model.errors_and_exit_codes import BadInput
    from harness.sim.log_model.bugs import LOG_BUGS

    names = tuple(sorted({part.strip() for part in text.split(",")} - {""}))
    if unknown := sorted(set(names) - LOG_BUGS.keys()):
        raise BadInput(f"--bug {unknown[0]}: no such bug; give one or more of {', '.join(LOG_BUGS)}")
    return names


@app.command()
def run(
    steps: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of steps for each seed.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, max=100_000, help="Number of consecutive seeds.")] = 1,
    bug: Bugs = "",
    weights: Annotated[
        str,
        typer.Option(
            help="Relative frequency of actions, such as append=10,read=5,restart=0; the others keep their default."
        ),
    ] = "",
    out: Annotated[Path | None, typer.Option(help="File for the program that shows the divergence, if any.")] = None,
) -> int:
    """Apply random steps to the simulated log and to the model, and compare the two after each step.

    A divergence is shrunk to a short program. Exit code 0: no divergence; 1: one was found.

    [bold]Examples[/bold]

      harness model run --steps 2000 --seeds 20

      harness model run --bug retention-not-idempotent --out blocked.log
    """
    from workloads.log_model.draw_actions import parse_weights
    from workloads.log_model.search import search, text
    from workloads.log_model.session import simulated

    names, chosen, began = _bugs(bug), parse_weights(weights), time.monotonic()
    for one in range(seed, seed + seeds):
        found = search(one, steps, simulated(frozenset(names)), chosen)
        if found is None:
            continue
        program = text(found, names)
        print(f"divergence at step {found.step} of seed {one}: {found.divergence.what}")
        print(f"  {found.divergence.seen}")
        print(f"shrunk to {len(found.shrunk.actions)} actions in {found.shrunk.replays} replays:\n\n{program}")
        if out is not None:
            out.write_text(program)
            print(f"next: harness model replay {out}")
        return EXIT_INVALID
    print(f"{seeds} x {steps} steps: no divergence ({time.monotonic() - began:.1f} s)")
    return EXIT_VALID


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A program that `harness model run` printed, or your own.")],
    bug: Bugs = "",
    cluster: Annotated[
        str, typer.Option(help="Brokers to compare with the model: local or mock. [default: the simulated log]")
    ] = "",
    kafka_version: Annotated[str, typer.Option(help="Kafka version, with --cluster local.")] = "",
    nodes: Annotated[int, typer.Option(min=1, max=15, help="Number of brokers, with --cluster local.")] = 3,
) -> int:
    """Replay the actions of a program on the log under test and on the model, and compare the two after each step.

    The simulated log has the bugs that the file names, or those of --bug if it is given. Exit code 0: no divergence;
    1: a divergence.

    [bold]Examples[/bold]

      harness model replay blocked.log

      harness model replay runs/latest/programs/1.log --cluster local
    """
    from harness.model.errors_and_exit_codes import BadInput
    from harness.sim.log_model.actions_as_text import parse
    from workloads.log_model.session import run as run_program
    from workloads.log_model.session import simulated

    try:
        with file.open() as opened:
            text = opened.read(PROGRAM_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {error}; give a file that `harness model run --out` wrote") from None
    if len(text) > PROGRAM_BYTES_MAX:
        raise BadInput(
            f"{file}: larger than {PROGRAM_BYTES_MAX} bytes; give a program that `harness model run --out` wrote"
        )
    settings, actions = parse(text, str(file))
    if cluster and bug:
        raise BadInput(f"--bug {bug}: bugs can only be switched on in the simulated log; leave out --bug or --cluster")
    names = _bugs(bug or ",".join(_named(text, "# bugs:")))
    if cluster:
        given = {"cluster": cluster, "nodes": nodes} | ({"kafka_version": kafka_version} if kafka_version else {})
        found = _with_brokers(given, settings, actions, frozenset(_named(text, "# passed over:")))
        names = ()
    else:
        found = run_program(settings, actions, simulated(frozenset(names)))
    about = f"{len(actions)} actions" + (f", bugs {', '.join(names)}" if names else "")
    if found is None:
        print(f"{about}: no divergence")
        return EXIT_VALID
    print(f"{about}: divergence at action {found.at + 1}: {found.what}\n  {found.seen}")
    return EXIT_INVALID


def _named(text: str, head: str) -> list[str]:
    """Returns the lines of a program that begin with `head`, each without this prefix."""
    return [line.removeprefix(head).strip() for line in text.splitlines() if line.startswith(head)]


def _with_brokers(
    given: Mapping[str, Any], settings: LogSettings, actions: Sequence[Action], passed_over: frozenset[str]
) -> Divergence | None:
    """Starts brokers, and replays a program on them and on the model. Returns the first divergence, or None."""
    import tempfile

    from harness.plan import make_plan
    from harness.run import log_model, make_cluster

    # The plan settings that the program's steps require of the brokers.
    tier = {"tiered": True} if settings.tiered else {}
    cut = any(one.f == "restart" and one.arg("how") == "power" for one in actions)
    power = {"weights": "power=1"} if cut else {}
    plan = make_plan.make({"workload": log_model.WORKLOAD, "run": "replay", **given, **tier, **power})
    with tempfile.TemporaryDirectory(prefix="harness-model-") as folder:
        made = make_cluster.make(plan, Path(folder) / "cluster", print)
        make_cluster.refuse_load(plan, made)
        return log_model.replay(plan, made, settings, actions, passed_over, Path(folder), print)


@app.command("bugs")
def bugs_() -> int:
    """List the bugs that can be switched on in the simulated log."""
    from harness.sim.log_model.bugs import LOG_BUGS

    width = max(map(len, LOG_BUGS))
    for name, summary in LOG_BUGS.items():
        print(f"{name:{width}}  {summary}")
    return EXIT_VALID


@app.command()
def detect(
    steps: Annotated[int, typer.Option(min=1, help="Number of steps for each seed.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds for each bug.")] = 20,
    bug: Bugs = "",
) -> int:
    """Print a Markdown table: after how many steps each bug is found, and how long its shrunk program is.

    Exit code 0: every seed found every bug; 1: a seed missed one.
    """
    from harness.sim.log_model.bugs import LOG_BUGS
    from workloads.log_model.search import detections

    names, complete = _bugs(bug) or tuple(LOG_BUGS), True
    print("| bug | found by | step: median | latest | actions: median | most |\n|---|---|---|---|---|---|")
    for one in detections(names, range(seed, seed + seeds), steps):
        complete = complete and len(one.steps) == one.seeds
        cells = [_median(one.steps), max(one.steps, default=0), _median(one.lengths)]
        row = [f"`{one.bug}`", f"{len(one.steps)} of {one.seeds}", *cells, max(one.lengths, default=0)]
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    return EXIT_VALID if complete else EXIT_INVALID


def _median(numbers: Sequence[int]) -> int:
    return sorted(numbers)[len(numbers) // 2] if numbers else 0
