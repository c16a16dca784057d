"""Reads the table of operations in one pass and reduces it to the data of the plots.

The memory needed does not grow with the history. The points of a scatter plot are kept in a bitmap (the screen) with
COLUMNS intervals of time and ROWS intervals of the latency's logarithm. For quantiles, the run is divided into WINDOWS
windows of time, each with a histogram of latencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

OUTCOMES: Final = ("ok", "info", "fail", "open")
COLUMNS: Final = 1000
ROWS: Final = 240
WINDOWS: Final = 120
BINS: Final = 1080  # bins of latency, 120 per decade, so that quantiles are accurate to 2 percent
LOW_S: Final = 1e-6
DECADES: Final = 9
POINTS_MAX: Final = 20_000
GROUP: Final = 8

Floats = np.ndarray[Any, np.dtype[np.float64]]
Counts = np.ndarray[Any, np.dtype[np.int64]]
Bits = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(slots=True)
class Reading:
    """The reduced data of all operations with one function f.

    screen  outcome -> array [column, row]: whether there is a point
    bins    array [window, bin]: number of operations with this latency
    most    array [window]: the longest latency in seconds; -1 if nothing completed in the window
    rates   outcome -> array [window]: number of completions
    count   number of operations
    """

    screen: dict[str, Bits] = field(default_factory=dict)
    bins: Counts = field(default_factory=lambda: np.zeros((WINDOWS, BINS), np.int64))
    most: Floats = field(default_factory=lambda: np.full(WINDOWS, -1.0))
    rates: dict[str, Counts] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True, slots=True)
class Readings:
    """The reduced data of all operations of a run.

    end_s    time at which the last operation ended, in seconds
    final_s  time at which the final polls began, in seconds; None if there were none
    by_f     function f -> its data
    """

    end_s: float
    final_s: float | None
    by_f: dict[str, Reading]

    @property
    def fs(self) -> list[str]:
        """The functions of the operations, the most frequent first."""
        return sorted(self.by_f, key=lambda f: (-self.by_f[f].count, f))


NEEDED: Final = ("f", "type", "invoke_ns", "complete_ns", "final")


def _batches(files: list[Path], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from pq.ParquetFile(file).iter_batches(batch_size=1 << 19, columns=list(columns))


def _span(files: list[Path]) -> tuple[float, float | None]:
    """Returns (time at which the run ended, time of the first final poll or None), in seconds."""
    end, final = 0, None
    for batch in _batches(files, ("invoke_ns", "complete_ns", "final")):
        invoked, completed = batch.column("invoke_ns"), batch.column("complete_ns")
        for column in (invoked, completed):
            end = max(end, pc.max(column).as_py() or 0)
        first = pc.min(invoked.filter(pc.fill_null(batch.column("final"), False))).as_py()
        final = first if final is None else final if first is None else min(first, final)
    return end / 1e9, None if final is None else final / 1e9


def read(run: Path) -> Readings:
    """Reads the operations from the tables of a run folder. `by_f` is empty if there are no operations."""
    files = sorted((run / "tables" / "ops").glob("*.parquet"))
    end_s, final_s = _span(files)
    by_f: dict[str, Reading] = {}
    if end_s > 0:
        for batch in _batches(files, NEEDED):
            _add(by_f, batch, end_s)
    return Readings(end_s, final_s, by_f)


def _add(by_f: dict[str, Reading], batch: pa.RecordBatch, end_s: float) -> None:
    completed = batch.column("complete_ns")
    invoke_s = batch.column("invoke_ns").to_numpy(zero_copy_only=False) / 1e9
    is_open = completed.is_null().to_numpy(zero_copy_only=False)
    complete_s = np.where(is_open, end_s, pc.fill_null(completed, 0).to_numpy(zero_copy_only=False) / 1e9)
    fs = batch.column("f").dictionary_encode()
    types = batch.column("type").dictionary_encode()
    f_codes, type_codes = fs.indices.to_numpy(), types.indices.to_numpy()
    for f_code, f in enumerate(fs.dictionary.to_pylist()):
        reading = by_f.setdefault(f, Reading())
        of_f = f_codes == f_code
        reading.count += int(np.count_nonzero(of_f))
        for type_code, type_ in enumerate(types.dictionary.to_pylist()):
            done = of_f & (type_codes == type_code) & ~is_open
            _outcome(reading, type_, invoke_s[done], complete_s[done], end_s)
        still = of_f & is_open
        _outcome(reading, "open", invoke_s[still], complete_s[still], end_s)


def _outcome(reading: Reading, outcome: str, invoke_s: Floats, complete_s: Floats, end_s: float) -> None:
    if len(invoke_s) == 0:
        return
    latency = np.maximum(complete_s - invoke_s, LOW_S)
    level = np.log10(latency / LOW_S) / DECADES  # 0 to 1
    screen = reading.screen.setdefault(outcome, np.zeros((COLUMNS, ROWS), np.bool_))
    screen[_cell(invoke_s / end_s, COLUMNS), _cell(level, ROWS)] = True
    window = _cell(complete_s / end_s, WINDOWS)
    if outcome == "open":
        return
    rate = reading.rates.setdefault(outcome, np.zeros(WINDOWS, np.int64))
    rate += np.bincount(window, minlength=WINDOWS)
    packed = window * BINS + _cell(level, BINS)
    reading.bins += np.bincount(packed, minlength=WINDOWS * BINS).reshape(WINDOWS, BINS)
    np.maximum.at(reading.most, window, latency)


def _cell(part: Floats, cells: int) -> Counts:
    """Divides the range from 0 to 1 into equal intervals. Returns the number of the interval of each value, from 0."""
    result: Counts = np.clip((part * cells).astype(np.int64), 0, cells - 1)
    return result


def cells(screen: Bits, limit: int) -> tuple[Counts, Counts]:
    """Returns the coordinates of the points on a screen: (columns, rows).

    If there are more than `limit` points, returns a sample of them that depends only on the screen. It includes the
    lowest and the highest point in each group of GROUP columns.
    """
    column, row = np.nonzero(screen)
    if len(column) > limit:
        group = column // GROUP
        by = np.lexsort((row, group))
        first = np.r_[True, np.diff(group[by]) > 0]
        keep = np.zeros(len(column), np.bool_)
        keep[by[first]] = keep[by[np.r_[first[1:], True]]] = True
        inner = np.flatnonzero(~keep)
        keep[np.random.default_rng(0).permutation(inner)[: max(limit - int(keep.sum()), 0)]] = True
        column, row = column[keep], row[keep]
    return column, row


def points(screen: Bits, end_s: float, limit: int) -> tuple[Floats, Floats]:
    """Returns (times, latencies) in seconds of the points on a screen; of a sample if there are more than `limit`."""
    column, row = cells(screen, limit)
    return (column + 0.5) / COLUMNS * end_s, LOW_S * 10 ** ((row + 0.5) / ROWS * DECADES)


def quantiles(reading: Reading, wanted: tuple[float, ...], windows: int) -> dict[float, Floats]:
    """Returns quantile -> array with the latency in seconds in each window of time; NaN if nothing completed in the
    window.

    The quantile 1.0 (the longest latency) is exact.

    windows  number of windows to return, a divisor of WINDOWS
    """
    bins = reading.bins.reshape(windows, -1, BINS).sum(axis=1)
    most = reading.most.reshape(windows, -1).max(axis=1)
    total = bins.sum(axis=1)
    running = np.cumsum(bins, axis=1)
    centres = LOW_S * 10 ** ((np.arange(BINS) + 0.5) / BINS * DECADES)
    found: dict[float, Floats] = {}
    for q in wanted:
        if q >= 1.0:
            found[q] = np.where(total > 0, most, np.nan)
            continue
        need = np.maximum(np.ceil(q * total), 1)
        place = (running < need[:, None]).sum(axis=1)
        found[q] = np.where(total > 0, np.minimum(centres[np.minimum(place, BINS - 1)], most), np.nan)
    return found
