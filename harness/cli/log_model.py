"""`harness model`: the log model against a log under test, step by step."""

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

app = typer.Typer(no_args_is_help=True, help="The log model: what a partition's log must do, step by step.")
Bugs = Annotated[str, typer.Option("--bug", help="Bugs of the log under test, with commas; see `bugs`.")]
PROGRAM_BYTES_MAX = 1 << 20


@app.callback()
def _app() -> None:
    """The log model: what a partition's log must do, step by step."""


def _bugs(text: str) -> tuple[str, ...]:
    """The names in --bug. Raises BadInput."""
    from harness.model.errors_and_exit_codes import BadInput
    from harness.sim.log_model.bugs import LOG_BUGS

    names = tuple(sorted({part.strip() for part in text.split(",")} - {""}))
    if unknown := sorted(set(names) - LOG_BUGS.keys()):
        raise BadInput(f"--bug {unknown[0]}: any of {', '.join(LOG_BUGS)}")
    return names


@app.command()
def run(
    steps: Annotated[int, typer.Option(min=1, max=10_000_000, help="Steps of each seed.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, max=100_000, help="How many, counting up.")] = 1,
    bug: Bugs = "",
    weights: Annotated[str, typer.Option(help="How often, such as append=10,read=5,restart=0; others as usual.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where to write the program, if there is one.")] = None,
) -> int:
    """Draw steps from the seed, do them to the simulated log and to the model, and check what must hold.

    A divergence is shrunk to a short program. Exit code 0: none; 1: one was found.

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
    file: Annotated[Path, typer.Argument(help="A program that a run has printed, or your own.")],
    bug: Bugs = "",
    cluster: Annotated[
        str, typer.Option(help="Beside brokers: local or mock. [default: beside the simulated log]")
    ] = "",
    kafka_version: Annotated[str, typer.Option(help="With --cluster local.")] = "",
    nodes: Annotated[int, typer.Option(min=1, max=15, help="With --cluster local.")] = 3,
) -> int:
    """Do the actions of a program again. The bugs are those that the file names, unless --bug is given.

    Exit code 0: no divergence; 1: one.

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
        raise BadInput(f"{file}: larger than {PROGRAM_BYTES_MAX} bytes; programs are short")
    settings, actions = parse(text, str(file))
    if cluster and bug:
        raise BadInput(f"--bug {bug}: brokers have no bugs to switch on; leave out --bug or --cluster")
    names = _bugs(bug or ",".join(_named(text, "# bugs:")))
    if cluster:
        given = {"cluster": cluster, "nodes": nodes} | ({"kafka_version": kafka_version} if kafka_version else {})
        found = _beside_brokers(given, settings, actions, frozenset(_named(text, "# passed over:")))
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
    """What the lines of a program say that begin so."""
    return [line.removeprefix(head).strip() for line in text.splitlines() if line.startswith(head)]


def _beside_brokers(
    given: Mapping[str, Any], settings: LogSettings, actions: Sequence[Action], passed_over: frozenset[str]
) -> Divergence | None:
    """The first divergence of a program beside brokers that are started for it."""
    import tempfile

    from harness.plan import make_plan
    from harness.run import log_model, make_cluster

    # What its steps need of brokers, a plan says by these.
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
    """List the bugs that the simulated log can be given."""
    from harness.sim.log_model.bugs import LOG_BUGS

    width = max(map(len, LOG_BUGS))
    for name, summary in LOG_BUGS.items():
        print(f"{name:{width}}  {summary}")
    return EXIT_VALID


@app.command()
def detect(
    steps: Annotated[int, typer.Option(min=1, help="Steps of each seed.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds for each bug.")] = 20,
    bug: Bugs = "",
) -> int:
    """Measure how soon each bug is found, and how short its program is, as a Markdown table.

    Exit code 0: each was found by every seed; 1: one was not.
    """
    from harness.sim.log_model.bugs import LOG_BUGS
    from workloads.log_model.search import detections

    names, complete = _bugs(bug) or tuple(LOG_BUGS), True
    print("| bug | found by | step: median | latest | actions: median | most |\n|---|---|---|---|---|---|")
    for one in detections(names, range(seed, seed + seeds), steps):
        complete = complete and len(one.steps) == one.seeds
        cells = [_middle(one.steps), max(one.steps, default=0), _middle(one.lengths)]
        row = [f"`{one.bug}`", f"{len(one.steps)} of {one.seeds}", *cells, max(one.lengths, default=0)]
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    return EXIT_VALID if complete else EXIT_INVALID


def _middle(numbers: Sequence[int]) -> int:
    return sorted(numbers)[len(numbers) // 2] if numbers else 0
