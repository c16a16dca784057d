"""Suggests commands to use after a run, depending on its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.clients.exec import examples
from harness.model.check_result import Result
from harness.report.text import pipeline_moments
from harness.stored import find_runs


def steps(folder: Path, result: Result) -> list[tuple[str, str]]:
    """Returns (command, purpose) of each command to suggest, the most useful first."""
    bad = [found.name for found in result.anomalies if found.bad]
    allow = " --allow-commands" if _has_commands(find_runs.plan_of(folder)) else ""
    again = f"harness run --plan {folder / 'plan.yaml'}{allow}"
    if (folder / find_runs.PAGE).is_file():
        found = [(f"harness open {folder}", "open the page: what happened, when, and during which fault")]
    else:
        found = [(f"harness show {folder}", "print the summary with more witnesses")]
    if result.valid == "invalid" and bad:
        commands = [
            *found,
            (f"harness explain {folder} {bad[0]}", "print the first witness in full"),
            (f"harness replay {folder}{allow}", "run it again and see how often the anomalies recur"),
        ]
        if not pipeline_moments.is_one(bad[0]):  # operations alone do not show an anomaly of a pipeline
            commands.append((f"harness shrink {folder}", "find the fewest operations that show the anomaly"))
        return commands
    if result.valid == "unknown":
        return [*found, (f"{again} --time-limit SECONDS", "run longer, if the run was too short to be judged")]
    return [*found, (f"{again} --seed N", "run with another seed: one valid run proves little")]


def _has_commands(plan: Mapping[str, Any]) -> bool:
    """Returns whether the plan names an application or a client program, which are executed only if the user agrees."""
    clients = plan.get("client")
    named = clients if isinstance(clients, list) else [clients]
    return plan.get("app") is not None or any(examples.is_foreign(str(name)) for name in named)


def text(folder: Path, result: Result) -> str:
    """Formats the suggestions as text, one line each."""
    found = steps(folder, result)
    width = max(len(command) for command, _ in found)
    lines = (f"{command:{width}}  {why}" for command, why in found)
    return "next: " + "\n      ".join(lines)
