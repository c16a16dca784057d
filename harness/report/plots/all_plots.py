"""Draws all plots of a run as PNG and SVG, from its tables and results.

If the tables for a plot are missing or empty, the plot says "no data". The plots do not influence the verdict.
"""

from __future__ import annotations

from pathlib import Path

from harness.report.plots import bin_operations, lag, latency, rate, unseen
from harness.stored import fault_spans, find_runs


def draw(run: Path) -> list[Path]:
    """Draws the plots of a run folder into its folder plots/, and returns the paths of the PNG and SVG files."""
    folder = run / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    data = bin_operations.read(run)
    faults = fault_spans.of_run(run)
    subtitle = _subtitle(run)
    return [
        *latency.points(data, faults, subtitle, folder),
        *latency.quantiles(data, faults, subtitle, folder),
        *rate.draw(data, faults, subtitle, folder),
        *unseen.draw(run, data, faults, subtitle, folder),
        *lag.draw(run, data, faults, subtitle, folder),
    ]


def _subtitle(run: Path) -> str:
    plan = find_runs.plan_of(run)
    acks = f"   acks={plan['acks']}" if plan.get("acks") is not None else ""
    return f"{plan.get('run') or run.resolve().name}{acks}"
