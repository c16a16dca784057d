"""Plots of realtime lag: the time since the acknowledgement of the oldest record that a client has not yet read.

The maximum is drawn as a line. The lag of each process and of each key is drawn as a row of coloured cells, because
there may be many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from harness.report.plots import fault_bands, latency, style
from harness.report.plots.bin_operations import Floats, Readings
from harness.report.plots.unseen import table_of, times_of
from harness.stored.fault_spans import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The checker stores about POINTS maxima of the lag in all. For each pair of a process and a key, these are between
# CELLS_MIN and CELLS_MAX maxima over time. A plot with narrower cells would have gaps.
POINTS: Final = 5000
CELLS_MIN: Final = 10
CELLS_MAX: Final = 200
ROWS_MAX: Final = 40
ROW_NAMES_MAX: Final = 20
# One hue from light to dark. White means that nothing was polled.
COLOURS: Final = ("#d6e6f4", "#6aaed6", "#1b69ae", "#08244d")


def cells(table: pa.Table) -> int:
    """Returns the number of time intervals to plot: so few that the table probably has rows for every interval."""
    pairs = table.group_by(["process", "key"]).aggregate([]).num_rows
    return int(np.clip(POINTS // max(1, pairs), CELLS_MIN, CELLS_MAX))


def levels_of(table: pa.Table, groups: Sequence[Any], end_s: float, count: int) -> dict[Any, Floats]:
    """Returns group -> array with the maximum lag in seconds in each time interval; NaN if nothing was polled in it.

    groups  the group (a process or a key) of each row of the table
    count   number of time intervals
    """
    cell = np.clip((times_of(table) / end_s * count).astype(np.int64), 0, count - 1)
    names: dict[Any, int] = {}
    codes = np.asarray([names.setdefault(group, len(names)) for group in groups], np.int64)
    most = np.full((len(names), count), -1.0)
    np.maximum.at(most, (codes, cell), table.column("lag_ns").to_numpy() / 1e9)
    return {name: np.where(most[row] >= 0, most[row], np.nan) for name, row in names.items()}


def draw(run: Path, data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """Draws the plots lag, lag-by-process and lag-by-key."""
    table = table_of(run, "realtime_lag")
    drawn: list[Path] = []
    for name, title, column in (
        ("lag", "Realtime lag (maximum over all processes and keys)", ""),
        ("lag-by-process", "Realtime lag by process (maximum over all keys)", "process"),
        ("lag-by-key", "Realtime lag by key (maximum over all processes)", "key"),
    ):
        axes = style.panels(title, subtitle, [""], spans, data.end_s)
        if table is None or data.end_s <= 0:
            style.no_data(axes[0])
        elif column:
            _rows(axes[0], table, column, spans, data.end_s)
            latency.final_line(axes, data)
        else:
            _line(axes[0], table, data.end_s)
            latency.final_line(axes, data)
        drawn += style.save(axes, folder, name)
    return drawn


def _line(ax: Axes, table: pa.Table, end_s: float) -> None:
    count = cells(table)
    level = levels_of(table, [""] * table.num_rows, end_s, count)[""]
    edges = np.arange(count + 1) / count * end_s
    ax.stairs(level, edges, color=style.PALETTE[0], linewidth=1.6, zorder=3, baseline=None)
    ax.stairs(level, edges, color=style.PALETTE[0], alpha=0.12, zorder=2.5, fill=True)
    ax.set_ylim(0, 1.08 * max(float(np.nanmax(level)), 1e-3))
    style.y_label([ax], "lag [s]")


def _natural(group: Any) -> tuple[int, int, str]:
    """Returns the sort key of a process or key: numbers by value, and then texts."""
    text = str(group)
    return (0, int(text), "") if text.lstrip("-").isdigit() else (1, 0, text)


def _rows(ax: Axes, table: pa.Table, column: str, spans: Sequence[Span], end_s: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import FixedLocator, NullFormatter

    count = cells(table)
    levels = levels_of(table, table.column(column).to_pylist(), end_s, count)
    chosen = sorted(levels, key=lambda group: -float(np.nanmax(levels[group])))[:ROWS_MAX]
    order = sorted(chosen, key=_natural)
    grid = np.stack([levels[group] for group in order])
    edges = np.arange(count + 1) / count * end_s
    mesh = ax.pcolormesh(
        edges,
        np.arange(len(order) + 1) - 0.5,
        np.ma.masked_invalid(grid),
        cmap=LinearSegmentedColormap.from_list("lag", COLOURS),
        vmin=0,
        vmax=max(float(np.nanmax(grid)), 1e-3),
        zorder=2,
        rasterized=True,
    )
    by_fault = fault_bands.lanes(spans)
    for name, mine in by_fault.items():  # the cells hide the tint, so the ends of faults are drawn as lines
        for span in mine[:ROWS_MAX]:
            for at in (span.begin_ns, span.end_ns):
                if at is not None:
                    ax.axvline(at / 1e9, color=fault_bands.colour(list(by_fault), name), linewidth=0.9, zorder=3)
    step = -(-len(order) // ROW_NAMES_MAX)
    ax.yaxis.set_major_locator(FixedLocator(list(range(0, len(order), step))))
    ax.set_yticklabels([str(group) for group in order[::step]])
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(False)
    ax.set_ylim(len(order) - 0.5, -0.5)
    few = f" (the worst {len(order)} of {len(levels):,})" if len(levels) > len(order) else ""
    style.y_label([ax], f"{column}{few}")
    style.colour_bar(ax, mesh, "lag [s]")
