"""One pass over the table of ops: everything that the plots of latency and rate need, in little memory.

Times are cut into cells as wide as a few pixels and latencies into cells of equal ratio, so a history of any
length becomes arrays of fixed size. Up to POINTS ops are kept as they are. Above that a point stands for a
cell of the screen, with how many ops it holds, and the slowest op of every column of the screen stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.report import tables
from harness.report.tables import NoData, ints

POINTS: Final = 20_000
COLUMNS: Final = 512
ROWS_PER_DECADE: Final = 24
RATE_BINS_MAX: Final = 120
WINDOWS_MAX: Final = 45
BINS_PER_DECADE: Final = 100
DECADES: Final = (2, 13)  # 100 ns to 10,000 s
FS_MAX: Final = 24
OUTCOMES: Final = ("ok", "info", "fail", "open")  # open: never completed
OK: Final = 0
OPEN: Final = 3

Array = np.ndarray[Any, np.dtype[Any]]


def nice_width_ns(end_ns: int, bins_max: int) -> int:
    """The smallest width of 1, 2 or 5 times a power of ten milliseconds that makes at most `bins_max` bins."""
    width = 1_000_000
    while True:
        for factor in (1, 2, 5):
            if width * factor * bins_max >= end_ns:
                return width * factor
        width *= 10


@dataclass(frozen=True, slots=True)
class Points:
    """Latency points of one f and outcome: seconds since the run began, latency in ns, ops per point."""

    at_s: Array
    latency_ns: Array
    count: Array


@dataclass(frozen=True, slots=True)
class Digest:
    """What the plots draw. `fs`: names by falling count; arrays are indexed by f first, then outcome.

    end_ns        end of the time axis
    final_ns      when the first op of the final phase was invoked, or None
    counts        [f, outcome] ops
    rate          [f, outcome, bin] completions in bins of `rate_ns`; an op that never completed counts at
                  its invocation
    histogram     [f, window, latency bin] `ok` ops in windows of `window_ns`, by invocation
    slowest_ns    [f, window] the largest latency of an `ok` op; -1 for none
    points        by (f, outcome)
    """

    fs: tuple[str, ...]
    end_ns: int
    final_ns: int | None
    counts: Array
    rate_ns: int
    rate: Array
    window_ns: int
    histogram: Array
    slowest_ns: Array
    points: dict[tuple[str, int], Points]
    exact: bool


@dataclass(slots=True)
class _Pass:
    """Running totals of the pass."""

    end_ns: int
    rate_ns: int
    window_ns: int
    exact: bool
    fs: dict[str, int]
    counts: Array
    rate: Array
    histogram: Array
    slowest: Array
    cells: dict[tuple[int, int], tuple[Array, Array]]
    kept: list[tuple[Array, Array, Array, Array]]
    final_ns: int

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch of ops."""
        f = self._codes(batch.column("f"))
        invoked, completed = ints(batch.column("invoke_ns")), ints(batch.column("complete_ns"))
        outcome = self._outcomes(batch.column("type"), completed)
        until = np.where(completed < 0, self.end_ns, completed)
        latency = np.maximum(until - invoked, 1)
        invoked = np.clip(invoked, 0, self.end_ns)
        series = f * len(OUTCOMES) + outcome
        width = len(OUTCOMES)
        self.counts += np.bincount(series, minlength=FS_MAX * width).reshape(FS_MAX, width)
        counted_at = np.where(completed < 0, invoked, np.clip(completed, 0, self.end_ns)) // self.rate_ns
        bins = self.rate.shape[2]
        self.rate += np.bincount(series * bins + counted_at, minlength=self.rate.size).reshape(
            self.rate.shape
        )
        self._quantiles(f, outcome, invoked, latency)
        if self.exact:
            self.kept.append((f, outcome, invoked, latency))
        else:
            self._points(series, invoked, latency)
        final = batch.column("final").to_numpy(zero_copy_only=False).astype(bool)
        if final.any():
            self.final_ns = min(self.final_ns, int(invoked[final].min()))

    def _codes(self, column: pa.DictionaryArray) -> Array:
        """Our number of each row's f; what does not fit is "other"."""
        names = column.dictionary.to_pylist()
        for name in names:
            if name not in self.fs:
                self.fs[name if len(self.fs) < FS_MAX - 1 else "other"] = min(len(self.fs), FS_MAX - 1)
        ours = np.array([self.fs.get(name, FS_MAX - 1) for name in names], np.int64)
        result: Array = ours[ints(column.indices, 0)]
        return result

    def _outcomes(self, column: pa.DictionaryArray, completed: Array) -> Array:
        names = column.dictionary.to_pylist()
        ours = np.array([OUTCOMES.index(name) if name in OUTCOMES else 1 for name in names], np.int64)
        result: Array = np.where(completed < 0, OPEN, ours[ints(column.indices, 0)])
        return result

    def _quantiles(self, f: Array, outcome: Array, invoked: Array, latency: Array) -> None:
        done = outcome == OK
        f, window, taken = f[done], invoked[done] // self.window_ns, latency[done]
        shape = self.histogram.shape
        place = (f * shape[1] + window) * shape[2] + latency_bin(taken)
        self.histogram += np.bincount(place, minlength=self.histogram.size).reshape(shape)
        np.maximum.at(self.slowest, (f, window), taken)

    def _points(self, series: Array, invoked: Array, latency: Array) -> None:
        rows = (DECADES[1] - DECADES[0]) * ROWS_PER_DECADE
        row = np.clip(((np.log10(latency) - DECADES[0]) * ROWS_PER_DECADE).astype(np.int64), 0, rows - 1)
        column = np.minimum(invoked * COLUMNS // (self.end_ns + 1), COLUMNS - 1)
        for one in np.unique(series):
            chosen = series == one
            key = (int(one) // len(OUTCOMES), int(one) % len(OUTCOMES))
            cells, slow = self.cells.setdefault(
                key, (np.zeros((COLUMNS, rows), np.int64), np.zeros((COLUMNS, 2), np.int64))
            )
            place = column[chosen] * rows + row[chosen]
            cells += np.bincount(place, minlength=cells.size).reshape(cells.shape)
            _keep_slowest(slow, column[chosen], invoked[chosen], latency[chosen])


def _keep_slowest(slow: Array, column: Array, invoked: Array, latency: Array) -> None:
    """Per column of the screen, (latency, invocation) of its slowest op."""
    by = np.argsort(latency, kind="stable")
    column, invoked, latency = column[by], invoked[by], latency[by]
    best = np.full((len(slow), 2), -1, np.int64)
    best[column] = np.stack([latency, invoked], axis=1)  # the last assignment, the largest, stays
    better = best[:, 0] > slow[:, 0]
    slow[better] = best[better]


def latency_bin(latency_ns: Array) -> Array:
    """The bin of each latency: BINS_PER_DECADE of equal ratio to a decade."""
    last = (DECADES[1] - DECADES[0]) * BINS_PER_DECADE - 1
    place = (np.log10(latency_ns) - DECADES[0]) * BINS_PER_DECADE
    result: Array = np.clip(place.astype(np.int64), 0, last)
    return result


def quantiles(digest: Digest, f: int, levels: tuple[float, ...]) -> tuple[Array, dict[float, Array]]:
    """Middles of the windows in s, and per level the latency in ns (NaN where no op was `ok`).

    Right to about 1%, because latencies were binned; level 1.0 is exact.
    """
    counts = digest.histogram[f]
    total = counts.sum(axis=1)
    middles = (np.arange(len(total)) + 0.5) * digest.window_ns / 1e9
    running = np.cumsum(counts, axis=1)
    found: dict[float, Array] = {}
    for level in levels:
        wanted = np.maximum(np.ceil(level * total), 1)
        place = (running < wanted[:, None]).sum(axis=1)
        latency = 10 ** (DECADES[0] + (place + 0.5) / BINS_PER_DECADE)
        latency = np.minimum(latency, digest.slowest_ns[f])
        exact = digest.slowest_ns[f].astype(float)
        found[level] = np.where(total == 0, np.nan, exact if level >= 1 else latency)
    return middles, found


def digest(run: Path, until_ns: int = 0) -> Digest:
    """Read tables/ops of a run once. Raises NoData.

    `until_ns`: the time axis reaches at least so far (a fault may end after the last op).
    """
    end_ns = max(tables.last_ns(run), until_ns, 1)
    total = _rows(run)
    rate_ns, window_ns = nice_width_ns(end_ns, RATE_BINS_MAX), nice_width_ns(end_ns, WINDOWS_MAX)
    windows = end_ns // window_ns + 1
    bins = (DECADES[1] - DECADES[0]) * BINS_PER_DECADE
    state = _Pass(
        end_ns=end_ns,
        rate_ns=rate_ns,
        window_ns=window_ns,
        exact=total <= POINTS,
        fs={},
        counts=np.zeros((FS_MAX, len(OUTCOMES)), np.int64),
        rate=np.zeros((FS_MAX, len(OUTCOMES), end_ns // rate_ns + 1), np.int64),
        histogram=np.zeros((FS_MAX, windows, bins), np.int64),
        slowest=np.full((FS_MAX, windows), -1, np.int64),
        cells={},
        kept=[],
        final_ns=end_ns + 1,
    )
    for batch in tables.ops_batches(run):
        state.add(batch)
    if not state.counts.any():
        raise NoData("no operations")
    return _finished(state)


def _rows(run: Path) -> int:
    try:
        files = tables.parquet_files(run / "tables" / "ops")
        return sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    except tables.UNREADABLE:
        return 0  # reading the rows will say what is wrong


def _finished(state: _Pass) -> Digest:
    names = {number: name for name, number in state.fs.items()}
    by = sorted(names, key=lambda number: -int(state.counts[number].sum()))
    by = [number for number in by if state.counts[number].any()]
    points = _exact_points(state, names) if state.exact else _cell_points(state, names)
    return Digest(
        fs=tuple(names[number] for number in by),
        end_ns=state.end_ns,
        final_ns=state.final_ns if state.final_ns <= state.end_ns else None,
        counts=state.counts[by],
        rate_ns=state.rate_ns,
        rate=state.rate[by],
        window_ns=state.window_ns,
        histogram=state.histogram[by],
        slowest_ns=state.slowest[by],
        points=points,
        exact=state.exact,
    )


def _exact_points(state: _Pass, names: dict[int, str]) -> dict[tuple[str, int], Points]:
    f, outcome, invoked, latency = (np.concatenate(part) for part in zip(*state.kept, strict=True))
    points: dict[tuple[str, int], Points] = {}
    for number, name in names.items():
        for kind in range(len(OUTCOMES)):
            chosen = (f == number) & (outcome == kind)
            if chosen.any():
                points[name, kind] = Points(
                    invoked[chosen] / 1e9, latency[chosen].astype(float), np.ones(int(chosen.sum()), np.int64)
                )
    return points


def _coarser(cells: Array) -> Array:
    """Two by two cells become one."""
    columns, rows = cells.shape
    result: Array = cells.reshape(columns // 2, 2, rows // 2, 2).sum(axis=(1, 3))
    return result


def _cell_points(state: _Pass, names: dict[int, str]) -> dict[tuple[str, int], Points]:
    grids = {key: cells for key, (cells, _) in state.cells.items()}
    rows = (DECADES[1] - DECADES[0]) * ROWS_PER_DECADE
    while rows % 2 == 0 and sum(int(np.count_nonzero(grid)) for grid in grids.values()) > POINTS:
        rows //= 2
        grids = {key: _coarser(grid) for key, grid in grids.items()}
    points: dict[tuple[str, int], Points] = {}
    for (number, kind), grid in grids.items():
        column, row = np.nonzero(grid)
        per_decade = grid.shape[1] / (DECADES[1] - DECADES[0])
        slow = state.cells[number, kind][1]
        slow = slow[slow[:, 0] > 0]
        at = np.concatenate([(column + 0.5) / grid.shape[0] * state.end_ns, slow[:, 1]]) / 1e9
        latency = np.concatenate([10 ** (DECADES[0] + (row + 0.5) / per_decade), slow[:, 0]])
        count = np.concatenate([grid[column, row], np.ones(len(slow), np.int64)])
        points[names[number], kind] = Points(at, latency, count)
    return points
