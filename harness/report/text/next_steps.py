"""What to do after a run: the commands that most likely help, by its verdict."""

from __future__ import annotations

from pathlib import Path

from harness.model.check_result import Result
from harness.report.text import pipeline_moments
from harness.stored import find_runs


def steps(folder: Path, result: Result) -> list[tuple[str, str]]:
    """(command, what it is for), the most useful first."""
    bad = [found.name for found in result.anomalies if found.bad]
    again = f"harness run --plan {folder / 'plan.yaml'}"
    if (folder / find_runs.PAGE).is_file():
        found = [(f"harness open {folder}", "the page: what happened, when, and under which fault")]
    else:
        found = [(f"harness show {folder}", "the summary again, with more witnesses")]
    if result.valid == "invalid" and bad:
        commands = [
            *found,
            (f"harness explain {folder} {bad[0]}", "the first one in full"),
            (f"harness replay {folder}", "how often the same comes again"),
        ]
        if not pipeline_moments.is_one(bad[0]):  # of a pipeline no part of the operations shows it
            commands.append((f"harness shrink {folder}", "the fewest operations that show it"))
        return commands
    if result.valid == "unknown":
        return [*found, (f"{again} --time-limit SECONDS", "for longer, if something did not come about")]
    return [*found, (f"{again} --seed N", "with other choices: one valid run proves little")]


def text(folder: Path, result: Result) -> str:
    """The steps, a line each."""
    found = steps(folder, result)
    width = max(len(command) for command, _ in found)
    lines = (f"{command:{width}}  {why}" for command, why in found)
    return "next: " + "\n      ".join(lines)
