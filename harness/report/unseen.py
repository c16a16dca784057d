"""Unseen: acknowledged records that nobody had read yet, over time, by key.

results/unseen.parquet holds a row whenever a key's count changed, or its maximum in a cell of time; between
its rows a key keeps its count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from harness.report import bands, style
from harness.report.faults import Span
from harness.report.tables import NoData, ints, read

KEYS_SHOWN: Final = 7
GRID: Final = 900

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Unseen:
    """Counts on a common grid of times. `by_key`: [key, time], the keys with the highest counts first."""

    at_s: Array
    keys: tuple[str, ...]
    by_key: Array


def load(run: Path, end_ns: int) -> Unseen:
    """The series of a run. Raises NoData."""
    table = read(run / "results" / "unseen.parquet", ("time_ns", "key", "unseen"))
    if table.num_rows == 0:
        raise NoData("nothing was acknowledged, or everything was read at once")
    times, counts = ints(table.column("time_ns")), ints(table.column("unseen"), 0)
    coded = table.column("key").combine_chunks().dictionary_encode()
    names = [str(name) for name in coded.dictionary.to_pylist()]
    key = ints(coded.indices, 0)
    end_ns = max(end_ns, int(times.max()))
    grid = np.unique(np.concatenate([times, [0, end_ns]]))
    if len(grid) > GRID:
        grid = np.linspace(0, end_ns, GRID).astype(np.int64)
    by_key = np.zeros((len(names), len(grid)), np.int64)
    for number in range(len(names)):
        chosen = key == number
        by = np.argsort(times[chosen], kind="stable")
        at, level = times[chosen][by], counts[chosen][by]
        # A grid point shows the largest count since the one before it, so that peaks survive.
        place = np.searchsorted(at, grid, side="right") - 1
        by_key[number] = np.where(place >= 0, level[np.maximum(place, 0)], 0)
        np.maximum.at(by_key[number], np.searchsorted(grid, at), level)
    by_peak = np.argsort(-by_key.max(axis=1), kind="stable")
    return Unseen(grid / 1e9, tuple(names[n] for n in by_peak), by_key[by_peak])


def over_time(unseen: Unseen, spans: Sequence[Span], run: str, final_s: float | None) -> Figure:
    """Stacked by key, with the total as a line and the counts that were left at the end."""
    title = "Acknowledged records not yet read by anyone"
    fig, strip, (ax,) = style.figure(title, run, 1, len(bands.lanes(spans)))
    end_s = max(float(unseen.at_s[-1]), 1e-9)
    total = unseen.by_key.sum(axis=0)
    shown = list(unseen.by_key[:KEYS_SHOWN])
    labels = [f"key {key}" for key in unseen.keys[:KEYS_SHOWN]]
    colours = list(style.SERIES[: len(shown)])
    if len(unseen.keys) > KEYS_SHOWN:
        shown.append(unseen.by_key[KEYS_SHOWN:].sum(axis=0))
        labels.append(f"{len(unseen.keys) - KEYS_SHOWN} other keys")
        colours.append("#BBBBBB")
    areas = ax.stackplot(
        unseen.at_s, shown, colors=colours, alpha=0.72, step="post", linewidth=0, zorder=2
    )
    (line,) = ax.step(unseen.at_s, total, where="post", color=style.INK, linewidth=1.3, zorder=5)
    left = [int(series[-1]) for series in shown]
    texts = [f"{text}{_left(n)}" for text, n in zip(labels, left, strict=True)]
    style.legend(
        ax,
        [line, *reversed(areas)],
        [f"all keys{_left(int(total[-1]))}", *reversed(texts)],
        "left at the end" if total[-1] else None,
    )
    style.counts(ax, "records")
    ax.set_ylim(0, max(float(total.max()) * 1.14, 1))
    ended = int(total[-1])
    style.panel_name(ax, f"{ended:,} were never read" if ended else "all were read in the end")
    bands.draw(strip, [ax], spans, end_s)
    bands.final_phase([ax], final_s, end_s)
    return fig


def _left(count: int) -> str:
    return f"  {count:,}" if count else ""
