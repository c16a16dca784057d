"""Formats the part of the summary about a pipeline, and the output of `harness offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checker.anomalies import pipeline_offsets
from harness.model.check_result import Result
from harness.model.values_as_text import many
from harness.report.text.phrases import OpPhrases


def figures(statistics: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the summary about a pipeline: its records, and the events of its instances."""
    lines = []
    counts = statistics.get("pipeline")
    if isinstance(counts, Mapping) and "inputs" in counts:
        lines.append(
            f"{_whose(counts)}: "
            f"inputs: {counts['inputs']:,}, of which {counts['done']:,} committed; "
            f"outputs: {counts['outputs']:,} (expected {counts['expected']:,}, surplus {counts['extra']:,}); "
            f"in aborted transactions: {counts['aborted']:,}{_states(counts)}"
        )
    offsets = statistics.get("offsets")
    if isinstance(offsets, Mapping) and isinstance(offsets.get("events"), Mapping):
        events = ", ".join(f"{count:,} {name}" for name, count in offsets["events"].items())
        lines.append(f"events of instances: {events or 'none'}")
    return lines


def _whose(counts: Mapping[str, Any]) -> str:
    """Names what the figures describe: the harness's own pipeline and its mode and transform, or an application and its
    mode."""
    if "unnamed" in counts:
        return f"application ({counts.get('mode')})"
    return f"pipeline ({counts.get('mode')}, {counts.get('transform')})"


def _states(counts: Mapping[str, Any]) -> str:
    """Returns how many outputs of an application show the expected state; empty if it shows none."""
    if "states" not in counts:
        return ""
    return f"; states: {counts['states']:,}, of which {counts['states_as_expected']:,} as expected"


def of_logs(result: Result, witnesses: int) -> str:
    """Formats the output of `harness offsets`."""
    offsets = result.statistics["offsets"]
    lines = offsets["lines"]
    events = sum(offsets["events"].values())
    output = [
        f"{result.valid.upper()}: {many(events, 'event')} of {many(offsets['instances'], 'instance')} in "
        f"{many(offsets['files'], 'file')}",
        *figures(result.statistics),
        f"lines without an event: {lines['unmatched']:,}; rejected: {lines['rejected']:,}; "
        f"truncated because they are too long: {lines['cut']:,}",
        *(f"  - {reason}" for reason in result.reasons),
    ]
    for found in result.anomalies:
        output.append(f"{found.name:{20}} {found.count:>6,}  {found.summary}")
        output += [f"  - {pipeline_offsets.prose(one, OpPhrases(None))}" for one in found.witnesses[:witnesses]]
    return "\n".join(output)
