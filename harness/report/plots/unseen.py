"""Plot of unread records over time, from the time series that the checker stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.report.plots import latency, style
from harness.report.plots.bin_operations import Floats, Readings
from harness.stored.fault_spans import Span

LINES_MAX: Final = 8
CELLS: Final = 300


def table_of(run: Path, name: str) -> pa.Table | None:
    """Reads a time series that the checker wrote to results/. Returns None if it is missing or empty."""
    path = run / "results" / f"{name}.parquet"
    if not path.is_file():
        return None
    table = pq.ParquetFile(path).read()
    return table if table.num_rows else None


def times_of(table: pa.Table) -> Floats:
    """Returns the times of the rows, in seconds since the run began."""
    result: Floats = table.column("time_ns").to_numpy() / 1e9
    return result


def _cells(end_s: float) -> Floats:
    """Divides the run into CELLS intervals, and returns the end of each in seconds."""
    result: Floats = (np.arange(CELLS) + 1) / CELLS * end_s
    return result


def levels_of(table: pa.Table, end_s: float) -> dict[str, Floats]:
    """Returns key -> array with the maximum number of acknowledged but unread records in each time interval.

    If the table has no row for a key in an interval, the last earlier value of this key applies.
    """
    keys = table.column("key").to_pylist()
    times, unseen = times_of(table), table.column("unseen").to_numpy()
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
        latest = np.maximum.accumulate(np.where(last >= 0, np.arange(CELLS), -1))
        kept = np.where(latest >= 0, last[np.maximum(latest, 0)], 0.0)
        found[key] = np.where(most >= 0, most, kept)
    return found


def draw(run: Path, data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """Draws the plot unseen: lines for the keys with the most unread records, for all other keys, and for all keys."""
    table = table_of(run, "unseen")
    end_s = data.end_s
    axes = style.panels("Acknowledged records that no client has read yet", subtitle, [""], spans, end_s)
    ax = axes[0]
    if table is None or end_s <= 0:
        style.no_data(ax)
        return style.save(axes, folder, "unseen")
    levels = levels_of(table, end_s)
    order = sorted(levels, key=lambda key: (-float(levels[key].max()), key))
    times = _cells(end_s)
    lines = [("all keys", sum(levels.values(), np.zeros(CELLS)), style.TEXT)]
    lines += [
        (f"key {key}", levels[key], colour) for key, colour in zip(order[:LINES_MAX], style.PALETTE, strict=False)
    ]
    if len(order) > LINES_MAX:
        rest: Floats = np.sum([levels[key] for key in order[LINES_MAX:]], axis=0)
        lines.append((f"{len(order) - LINES_MAX} other keys", rest, style.OTHERS))
    for number, (_, level, colour) in enumerate(lines):
        width, above = (1.9, 5) if number == 0 else (1.3, 3)
        ax.plot(times, level, color=colour, linewidth=width, zorder=above, drawstyle="steps-pre")
    ax.set_ylim(bottom=0)
    ax.margins(y=0.08)
    style.y_label(axes, "records")
    latency.final_line(axes, data)
    handles = style.lines(colour for _, _, colour in lines)
    style.legend(
        ax,
        handles,
        [f"{name}: {level[-1]:,.0f}" for name, level, _ in lines],
        title="unread at the end",
    )
    return style.save(axes, folder, "unseen")
