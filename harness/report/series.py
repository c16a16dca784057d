"""The checker's series: unseen records over time, and realtime lag overall, by process and by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.lines import Line2D

from harness.report import latency, style
from harness.report.readings import Floats, Readings
from harness.report.spans import Span

LINES_MAX: Final = 8
CELLS: Final = 300


def _table(run: Path, name: str) -> pa.Table | None:
    path = run / "results" / f"{name}.parquet"
    if not path.is_file():
        return None
    table = pq.ParquetFile(path).read()
    return table if table.num_rows else None


def _times(table: pa.Table) -> Floats:
    result: Floats = table.column("time_ns").to_numpy() / 1e9
    return result


def _cells(end_s: float) -> Floats:
    """The ends of the cells of time."""
    result: Floats = (np.arange(CELLS) + 1) / CELLS * end_s
    return result


def unseen_levels(table: pa.Table, end_s: float) -> dict[str, Floats]:
    """Per key: records acknowledged and not yet read by anyone, in each cell of time, the most of it.

    Between its rows a key keeps its last value.
    """
    keys = table.column("key").to_pylist()
    times, unseen = _times(table), table.column("unseen").to_numpy()
    by_key: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        by_key.setdefault(key, []).append(row)
    found: dict[str, Floats] = {}
    for key, rows in by_key.items():
        at = np.asarray(rows)
        cell = np.clip((times[at] / end_s * CELLS).astype(np.int64), 0, CELLS - 1)
        most = np.full(CELLS, -1.0)
        np.maximum.at(most, cell, unseen[at])
        last = np.full(CELLS, -1.0)
        last[cell] = unseen[at]  # ascending in time: the last one stays
        held = np.maximum.accumulate(np.where(last >= 0, np.arange(CELLS), -1))
        kept = np.where(held >= 0, last[np.maximum(held, 0)], 0.0)
        found[key] = np.where(most >= 0, most, kept)
    return found


def unseen(run: Path, data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """unseen: the keys with the most, the others together, and all together."""
    table = _table(run, "unseen")
    end_s = data.end_s
    axes = style.panels("Acknowledged records that nobody has read yet", subtitle, [""], spans, end_s)
    ax = axes[0]
    if table is None or end_s <= 0:
        style.no_data(ax)
        return style.save(axes, folder, "unseen")
    levels = unseen_levels(table, end_s)
    order = sorted(levels, key=lambda key: (-float(levels[key].max()), key))
    times = _cells(end_s)
    lines = [("all keys", sum(levels.values(), np.zeros(CELLS)), style.TEXT)]
    lines += [(f"key {key}", levels[key], colour) for key, colour in zip(order[:LINES_MAX], style.PALETTE, strict=False)]
    if len(order) > LINES_MAX:
        rest: Floats = np.sum([levels[key] for key in order[LINES_MAX:]], axis=0)
        lines.append((f"{len(order) - LINES_MAX} other keys", rest, style.OTHERS))
    for number, (_, level, colour) in enumerate(lines):
        ax.plot(times, level, color=colour, linewidth=1.9 if number == 0 else 1.3, zorder=5 if number == 0 else 3,
                drawstyle="steps-post")  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.margins(y=0.08)
    style.y_label(axes, "records")
    latency.final_line(axes, data)
    handles = [Line2D([], [], color=colour, linewidth=2) for _, _, colour in lines]
    style.legend(ax, handles, [f"{name}  ({level[-1]:,.0f} at the end)" if level[-1] else name for name, level, _ in lines])
    return style.save(axes, folder, "unseen")


def lag_levels(table: pa.Table, groups: Sequence[Any], end_s: float) -> dict[Any, Floats]:
    """Per group: the most lag in seconds in each cell of time, NaN where nothing was polled."""
    times, lag = _times(table), table.column("lag_ns").to_numpy() / 1e9
    cell = np.clip((times / end_s * CELLS).astype(np.int64), 0, CELLS - 1)
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    most = np.full((len(names), CELLS), -1.0)
    np.maximum.at(most, (codes, cell), lag)
    return {name.item(): np.where(most[row] >= 0, most[row], np.nan) for row, name in enumerate(names)}


def lag(run: Path, data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """lag, lag-by-process, lag-by-key: how old the first record is that a client could have read, and had not."""
    table = _table(run, "realtime_lag")
    drawn: list[Path] = []
    for name, title, column in (
        ("lag", "Realtime lag, the worst of all clients and keys", None),
        ("lag-by-process", "Realtime lag by process, the worst of its keys", "process"),
        ("lag-by-key", "Realtime lag by key, the worst of all clients", "key"),
    ):
        axes = style.panels(title, subtitle, [""], spans, data.end_s)
        if table is None or data.end_s <= 0:
            style.no_data(axes[0])
        else:
            groups = [""] * table.num_rows if column is None else table.column(column).to_pylist()
            _lines(axes[0], lag_levels(table, groups, data.end_s), column, data.end_s)
            style.y_label(axes, "lag [s]")
            latency.final_line(axes, data)
        drawn += style.save(axes, folder, name)
    return drawn


def _lines(ax: Any, levels: dict[Any, Floats], column: str | None, end_s: float) -> None:
    times = _cells(end_s)
    order = sorted(levels, key=lambda group: (-float(np.nanmax(levels[group])), str(group)))
    handles, labels = [], []
    for number, group in enumerate(order):
        top = number < LINES_MAX
        colour = style.PALETTE[number] if top else style.OTHERS
        known = ~np.isnan(levels[group])
        ax.plot(
            times[known], levels[group][known], color=colour, linewidth=1.4 if top else 0.7,
            alpha=1.0 if top else 0.6, zorder=4 if top else 3,
        )  # fmt: skip
        if column is not None and number <= LINES_MAX:
            handles.append(Line2D([], [], color=colour, linewidth=2))
            labels.append(f"{column} {group}" if top else f"{len(order) - LINES_MAX} others")
    ax.set_ylim(bottom=0)
    ax.margins(y=0.08)
    if column is not None:
        style.legend(ax, handles, labels, "most lag first")


__all__ = ["lag", "lag_levels", "unseen", "unseen_levels"]
