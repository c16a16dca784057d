"""Plots of latency, with one panel for each function f: all operations as points, and quantiles over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.report.plots import bin_operations as readings
from harness.report.plots import style
from harness.report.plots.bin_operations import Reading, Readings
from harness.stored.fault_spans import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_MAX: Final = 3
QUANTILES: Final = (0.5, 0.95, 0.99, 1.0)
QUANTILE_COLOURS: Final = ("#56B4E9", "#0072B2", "#E69F00", "#C4308A")
QUANTILE_NAMES: Final = ("median", "95%", "99%", "longest")
RARE: Final = 0.005
WINDOWS: Final = (120, 60, 40, 30, 20)  # divisors of readings.WINDOWS
ENOUGH: Final = 200


def shown(data: Readings) -> list[str]:
    """Returns the functions f that have a panel, the most frequent first.

    Rare functions have no panel, except send, poll and txn.
    """
    total = sum(reading.count for reading in data.by_f.values())
    fs = [f for f in data.fs if data.by_f[f].count >= RARE * total or f in ("send", "poll", "txn")] or data.fs
    return fs[:PANELS_MAX]


def points(data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """Draws the plot latency-points: the latency and the invocation time of each operation, coloured by outcome."""
    from matplotlib.lines import Line2D

    fs = shown(data)
    axes = style.panels("Latency of every operation", subtitle, fs or [""], spans, data.end_s)
    if not fs:
        style.no_data(axes[0])
        return style.save(axes, folder, "latency-points")
    used: set[str] = set()
    limit = readings.POINTS_MAX // sum(len(data.by_f[f].screen) for f in fs)
    for ax, f in zip(axes, fs, strict=True):
        lows, highs = [], []
        for outcome in readings.OUTCOMES:
            screen = data.by_f[f].screen.get(outcome)
            if screen is None:
                continue
            used.add(outcome)
            x, y = readings.points(screen, data.end_s, limit)
            lows.append(y.min())
            highs.append(y.max())
            rare = len(x) < 400
            ax.scatter(
                x,
                y,
                s=14 if rare else 4,
                marker=_marker(outcome),
                linewidths=0,
                alpha=0.9 if rare else 0.55,
                color=style.OUTCOMES[outcome],
                zorder=3 if outcome == "ok" else 4,
                rasterized=True,
            )
        style.log_durations(ax, min(lows), max(highs))
    style.y_label(axes, "latency")
    final_line(axes, data)
    names = [outcome for outcome in readings.OUTCOMES if outcome in used]
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=_marker(name),
            markersize=7,
            color=style.OUTCOMES[name],
            markeredgewidth=0,
        )
        for name in names
    ]
    style.legend(axes[0], handles, [style.OUTCOME_NAMES[name] for name in names])
    return style.save(axes, folder, "latency-points")


def _marker(outcome: str) -> str:
    return {"ok": "o", "info": "D", "fail": "s"}.get(outcome, "^")


def final_line(axes: Sequence[Axes], data: Readings) -> None:
    """Draws a line at the time at which the final polls began."""
    if data.final_s is None:
        return
    for ax in axes:
        ax.axvline(data.final_s, color=style.FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)
    axes[0].annotate(
        "final polls",
        (data.final_s, 0.98),
        xycoords=("data", "axes fraction"),
        xytext=(2, 0),
        fontsize=8.5,
        textcoords="offset points",
        ha="left",
        va="top",
        color="#4d4d4d",
        rotation=90,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.6, "pad": 0.5},
    )


def windows_for(readings: Sequence[Reading]) -> int:
    """Returns the largest number in WINDOWS that leaves, on average, at least ENOUGH operations of each f in each
    window.

    Returns the smallest number in WINDOWS if none does. A 99% quantile needs about ENOUGH operations.
    """
    fewest = min((reading.count for reading in readings), default=0)
    return next((n for n in WINDOWS if fewest >= ENOUGH * n), WINDOWS[-1])


def quantiles(data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """Draws the plot latency-quantiles: the latencies of completed operations over their completion time.

    Operations with all outcomes are included.
    """
    fs = shown(data)
    windows = windows_for([data.by_f[f] for f in fs[:2]])  # the two most frequent
    width = data.end_s / windows
    title = f"Latency quantiles, in windows of {style.duration(float(f'{width:.2g}'))}"
    axes = style.panels(title, subtitle, fs or [""], spans, data.end_s)
    if not fs:
        style.no_data(axes[0])
        return style.save(axes, folder, "latency-quantiles")
    times = (np.arange(windows) + 0.5) * width
    for ax, f in zip(axes, fs, strict=True):
        found = readings.quantiles(data.by_f[f], QUANTILES, windows)
        for q, colour in zip(QUANTILES, QUANTILE_COLOURS, strict=True):
            ax.plot(
                times,
                found[q],
                color=colour,
                linewidth=1.5,
                marker=".",
                markersize=3.5,
                zorder=3 + q,
            )
        durations = np.concatenate(list(found.values()))
        if np.isnan(durations).all():
            style.no_data(ax, "none completed")
        else:
            style.log_durations(ax, float(np.nanmin(durations)), float(np.nanmax(durations)))
    style.y_label(axes, "latency")
    final_line(axes, data)
    handles = style.lines(reversed(QUANTILE_COLOURS))
    style.legend(axes[0], handles, QUANTILE_NAMES[::-1])
    return style.save(axes, folder, "latency-quantiles")
