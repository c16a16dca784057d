"""The lines of a summary on pipelines, and what `harness offsets` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checker.anomalies import pipeline_offsets
from harness.model.result import Result
from harness.model.wording import many
from harness.report.text.phrases import Teller


def figures(statistics: Mapping[str, Any]) -> list[str]:
    """The lines of a summary on what went through a pipeline."""
    lines = []
    held = statistics.get("pipeline")
    if isinstance(held, Mapping) and "inputs" in held:
        lines.append(
            f"pipeline ({held.get('mode')}, {held.get('transform')}): {held['inputs']:,} input records, "
            f"{held['done']:,} done; {held['outputs']:,} outputs, {held['expected']:,} expected, "
            f"{held['extra']:,} too many, {held['aborted']:,} of aborted transactions"
        )
    told = statistics.get("offsets")
    if isinstance(told, Mapping) and isinstance(told.get("events"), Mapping):
        counts = ", ".join(f"{count:,} {name}" for name, count in told["events"].items())
        lines.append(f"events of instances: {counts or 'none'}")
    return lines


def of_logs(result: Result, witnesses: int) -> str:
    """What `harness offsets` prints."""
    held = result.statistics["offsets"]
    lines = held["lines"]
    events = sum(held["events"].values())
    said = [
        f"{result.valid.upper()}: {many(events, 'event')} of {many(held['instances'], 'instance')} in "
        f"{many(held['files'], 'file')}",
        *figures(result.statistics),
        f"lines that tell of none: {lines['unmatched']:,}; rejected: {lines['rejected']:,}; "
        f"cut because they are too long: {lines['cut']:,}",
        *(f"  - {reason}" for reason in result.reasons),
    ]
    for found in result.anomalies:
        said.append(f"{found.name:{20}} {found.count:>6,}  {found.summary}")
        said += [f"  - {pipeline_offsets.prose(one, Teller(None))}" for one in found.witnesses[:witnesses]]
    return "\n".join(said)
