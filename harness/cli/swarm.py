"""The `harness swarm` command, which runs random plans within a time budget."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.cli.matrix import seconds
from harness.cli.parameters import RunsDir
from harness.model.errors_and_exit_codes import EXIT_VALID

if TYPE_CHECKING:
    from harness.experiments.swarm.run import Done, Shrunk

SHRINK_RUNS: Final = 3  # runs of each smaller plan


def swarm(
    file: Annotated[Path, typer.Argument(help="A YAML file with the features from which the plans are drawn.")],
    budget: Annotated[str, typer.Option(help="Time budget for everything: 90 (seconds), 20m or 4h.")] = "1h",
    shrink: Annotated[
        str, typer.Option(help="Time to repeat each new finding and to shrink its plan; 0: do not.")
    ] = "10m",
    rounds: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of rounds; 0: as many as fit into the budget.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rounds.")] = 1,
    show: Annotated[
        int, typer.Option("--list", min=0, metavar="N", help="Print the plans of the first N rounds; run nothing.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for summary.md and results.json; continues an earlier swarm there.")
    ] = None,
    runs_dir: RunsDir = Path("runs"),
) -> int:
    """Run random plans, each of which leaves out a random half of the features.

    Each new finding is repeated, and its plan is shrunk. Exit code 0: nothing was found; 1: a run had an anomaly that
    Kafka rules out under its settings; 2: no run was judged.

    [bold]Examples[/bold]

      harness swarm swarm.yaml --budget 2h

      harness swarm swarm.yaml --list 5
    """
    from harness.experiments.swarm import draw_rounds, report, run, spec
    from harness.model.errors_and_exit_codes import BadInput

    budget_s, shrink_s = seconds(budget), seconds(shrink)
    features = spec.load(file)
    if show:
        for number in range(show):
            print(f"round {number}: {'; '.join(draw_rounds.drawn(features, seed, number, spec.is_plan).features)}")
        return 0
    folder = out or runs_dir / "swarm" / time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    before, done, small = report.read(folder) or (seed, [], {})
    if before != seed:
        raise BadInput(
            f"--out {folder}: it has a swarm with --seed {before}; repeat this seed, or choose another folder"
        )
    end_s, first = time.monotonic() + budget_s, len(done)
    results = run.carry_out(features, seed, first, end_s, runs_dir, print)
    for each in islice(results, rounds or None):
        done.append(each)
        report.write(folder, seed, done, small)
        left_s = min(shrink_s, end_s - time.monotonic())
        if each.finding and each.finding not in small and left_s > each.seconds:
            print(f"new: {each.finding}")
            small[each.finding] = _shrunk(each, f"{left_s:.0f}s", runs_dir)
            report.write(folder, seed, done, small)
    print(report.counts(done))
    for name, found in report.findings(done).items():
        print(f"  {name}: {len(found)} of {len(done)} rounds, first {found[0].folder}")
    print(f"  {folder / 'summary.md'}")
    return run.exit_code(done)


def _shrunk(done: Done, budget: str, runs_dir: Path) -> Shrunk:
    """Repeats the run of a finding and shrinks its plan, within a time budget such as 10m."""
    from harness.experiments.swarm.run import Shrunk
    from harness.run.spark import NONE
    from harness.shrinking import shrink_schedule
    from harness.stored import find_runs

    folder, lines = Path(done.folder), [""]

    def say(line: str) -> None:
        lines.append(line)
        print(f"  {line}")

    result = find_runs.require_result(folder)
    code = shrink_schedule.shrink(folder, result, done.anomalies[0], SHRINK_RUNS, budget, runs_dir, NONE, say)
    plan = folder / "shrunk" / "schedule" / "plan.yaml"
    summary = next(line for line in reversed(lines) if not line.startswith("next:"))
    return Shrunk(code == EXIT_VALID, str(plan) if plan.exists() else "", summary)
