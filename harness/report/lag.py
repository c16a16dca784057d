"""Realtime lag: how far behind the acknowledged end of a key a reader was, by process and by key.

The lag of a key at a poll is the poll's invocation time minus the completion time of the first acknowledged
send newer than what the poller has read; a reader that starts at the beginning lags by the age of the log.
results/realtime_lag.parquet holds the maxima of cells of time. Where nobody polled, nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness.report import bands, style
from harness.report.faults import Span
from harness.report.tables import NoData, ints, read

ROWS_SHOWN: Final = 24
CELLS: Final = 240
LAG_MIN_S: Final = 0.01
ROW_LABELS_MAX: Final = 14

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Lag:
    """Rows of the series: times and lags in ns; numbers of process and key, and their names."""

    at_ns: Array
    lag_ns: Array
    group: dict[str, Array]
    names: dict[str, tuple[str, ...]]


def load(run: Path) -> Lag:
    """The series of a run. Raises NoData."""
    table = read(run / "results" / "realtime_lag.parquet", ("time_ns", "process", "key", "lag_ns"))
    if table.num_rows == 0:
        raise NoData("no poll of a key with acknowledged records")
    group: dict[str, Array] = {}
    names: dict[str, tuple[str, ...]] = {}
    for field in ("process", "key"):
        coded = table.column(field).combine_chunks().dictionary_encode()
        names[field] = tuple(str(name) for name in coded.dictionary.to_pylist())
        group[field] = ints(coded.indices, 0)
    return Lag(ints(table.column("time_ns")), ints(table.column("lag_ns"), 0), group, names)


def _natural(name: str) -> tuple[int, int, str]:
    """Numbers in their order, before everything else."""
    return (0, int(name), "") if name.lstrip("-").isdigit() else (1, 0, name)


def grid(lag: Lag, field: str, end_ns: int) -> tuple[list[str], Array, int]:
    """(names, [row, cell] largest lag in s, how many rows were left out): the worst rows, in natural order."""
    names, numbers = lag.names[field], lag.group[field]
    cell = np.minimum(lag.at_ns * CELLS // (end_ns + 1), CELLS - 1)
    found = np.full((len(names), CELLS), -1.0)
    np.maximum.at(found, (numbers, cell), lag.lag_ns / 1e9)
    found[found < 0] = np.nan
    peak = np.nanmax(np.nan_to_num(found, nan=-1.0), axis=1)
    kept = np.argsort(-peak, kind="stable")[:ROWS_SHOWN].tolist()
    kept.sort(key=lambda number: _natural(names[number]))
    return [names[number] for number in kept], found[kept], len(names) - len(kept)


def by(lag: Lag, field: str, spans: Sequence[Span], run: str, end_ns: int, final_s: float | None) -> Figure:
    """The largest lag of all over time, and below it a row per process or key. `field`: process or key."""
    fig, strip, axes = style.figure(f"Realtime lag by {field}", run, 2, len(bands.lanes(spans)))
    end_ns = max(end_ns, int(lag.at_ns.max()), 1)
    edges = np.linspace(0, end_ns / 1e9, CELLS + 1)
    names, rows, left_out = grid(lag, field, end_ns)
    worst = np.nanmax(np.nan_to_num(rows, nan=-1.0), axis=0)
    worst[worst < 0] = np.nan
    top, below = axes
    top.stairs(worst, edges, color=style.BLUE, linewidth=1.3, baseline=None, zorder=5)
    top.stairs(np.nan_to_num(worst), edges, color=style.SKY, alpha=0.35, fill=True, zorder=3)
    top.set_ylim(0, max(float(np.nanmax(worst)) * 1.2, 1e-3))
    top.set_ylabel("lag (s)", fontsize=9)
    style.panel_name(top, f"largest of all, {style.duration(float(np.nanmax(worst)))} at worst")
    _heat(fig, below, rows, edges, names, field, left_out)
    bands.draw(strip, [top], spans, end_ns / 1e9)
    for span in spans[: bands.DRAWN_MAX]:
        below.axvline(span.start_ns / 1e9, color=style.SOFT, linewidth=0.7, linestyle=":", zorder=4)
    bands.final_phase(axes, final_s, end_ns / 1e9)
    return fig


def _heat(
    fig: Figure, ax: Axes, rows: Array, edges: Array, names: list[str], field: str, left_out: int
) -> None:
    colours = colormaps["cividis_r"]
    high = max(float(np.nanmax(rows)), LAG_MIN_S * 100)
    mesh = ax.pcolormesh(
        edges,
        np.arange(len(names) + 1),
        np.ma.masked_invalid(np.maximum(rows, LAG_MIN_S)),
        cmap=colours,
        norm=LogNorm(LAG_MIN_S, high),
        rasterized=True,
        zorder=2,
    )
    ax.set_ylim(len(names), 0)
    ax.grid(False)
    every = -(-len(names) // ROW_LABELS_MAX)
    ax.set_yticks(np.arange(0, len(names), every) + 0.5, names[::every], fontsize=8)
    ax.set_ylabel(field, fontsize=9)
    place = ax.get_position()
    bar = fig.add_axes((place.x1 + 0.012, place.y0, 0.012, place.height))
    scale = fig.colorbar(mesh, cax=bar)
    scale.ax.yaxis.set_major_locator(LogLocator(base=10))
    scale.ax.yaxis.set_minor_locator(NullLocator())
    scale.ax.yaxis.set_major_formatter(
        FuncFormatter(lambda s, _: ("≤ " if s <= LAG_MIN_S * 1.01 else "") + style.duration(s))
    )
    scale.ax.tick_params(labelsize=9)
    if left_out:
        ax.text(
            1.075, 0.0, f"{left_out} with less\nlag left out", transform=ax.transAxes, fontsize=8.5,
            color=style.SOFT, va="bottom",
        )  # fmt: skip
