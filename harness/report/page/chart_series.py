"""Computes the data of the run page's charts, with the same code as the plots.

All charts have the same time axis, from 0 to the end of the run, in seconds. Each chart divides it into a fixed number
of equal intervals, called cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness.report.plots import bin_operations as readings
from harness.report.plots import fault_bands, lag, latency, style, unseen
from harness.report.plots.bin_operations import Floats, Reading, Readings
from harness.stored.fault_spans import Span

KEYS_SHOWN: Final = 6
ALL: Final = "all"
POINTS_MAX: Final = 10_000  # points per outcome and kind of operation
CELLS: Final = 10 * readings.WINDOWS  # cells of time in which witnesses are counted


def of_run(run: Path, data: Readings, spans: Sequence[Span]) -> dict[str, Any]:
    """Returns the data of all charts of a run, ready for JSON.

    end            time of the end of the run
    final          time of the first final poll, or None
    windows        number of time intervals for rates and quantiles
    columns, rows  size of the grid of points: number of time intervals, and number of latency intervals
    cells          number of time intervals in which witnesses are counted
    ops            the charts of each kind of operation; if there are several kinds, the first entry is for all together
    unseen, lag    {cells, lines: [{name, colour, values}]}, or None if the checker did not store these data
    faults         see `faults`
    """
    return {
        "end": data.end_s,
        "final": data.final_s,
        "windows": readings.WINDOWS,
        "columns": readings.COLUMNS,
        "cells": CELLS,
        "rows": readings.ROWS,
        "low": readings.LOW_S,
        "decades": readings.DECADES,
        "outcomes": list(readings.OUTCOMES),
        "outcome_names": style.OUTCOME_NAMES,
        "ops": _operations(data),
        "unseen": _unseen(run, data.end_s),
        "lag": _lag(run, data.end_s),
        "faults": faults(spans, data.end_s),
    }


def _operations(data: Readings) -> list[dict[str, Any]]:
    """Returns rates, quantiles and points for each kind of operation that the plots show.

    If there are several kinds, the first entry is for all of them together.
    """
    shown = [(f, data.by_f[f]) for f in latency.shown(data)]
    readings = [(ALL, _together([data.by_f[f] for f in data.fs])), *shown] if len(data.fs) > 1 else shown
    return [_operation(name, reading, POINTS_MAX) for name, reading in readings]


def _together(parts: Sequence[Reading]) -> Reading:
    """Combines the data of all kinds of operations into one."""
    whole = Reading()
    for part in parts:
        whole.bins += part.bins
        whole.most = np.maximum(whole.most, part.most)
        whole.count += part.count
        for outcome, counts in part.rates.items():
            whole.rates[outcome] = whole.rates.get(outcome, 0) + counts
        for outcome, screen in part.screen.items():
            whole.screen[outcome] = whole.screen.get(outcome, np.zeros_like(screen)) | screen
    return whole


def _operation(name: str, reading: Reading, limit: int) -> dict[str, Any]:
    points: dict[str, Any] = {}
    for outcome, screen in reading.screen.items():
        columns, rows = readings.cells(screen, limit)
        points[outcome] = {"x": columns.tolist(), "y": rows.tolist(), "of": int(np.count_nonzero(screen))}
    found = readings.quantiles(reading, latency.QUANTILES, latency.windows_for([reading]))
    return {
        "name": name,
        "count": reading.count,
        "rates": {outcome: counts.tolist() for outcome, counts in reading.rates.items()},
        "quantiles": [
            {"name": text, "colour": colour, "values": _rounded(found[q])}
            for q, text, colour in zip(latency.QUANTILES, latency.QUANTILE_NAMES, latency.QUANTILE_COLOURS, strict=True)
        ],
        "points": points,
    }


def _rounded(values: Floats) -> list[float | None]:
    """Rounds values to four significant digits, and replaces NaN with None."""
    return [None if np.isnan(value) else float(f"{value:.4g}") for value in values]


def _table(run: Path, name: str) -> pa.Table | None:
    """Reads a time series that the checker stored. Returns None if it is missing, empty or damaged."""
    try:
        return unseen.table_of(run, name)
    except (OSError, ValueError, pa.ArrowException):
        return None


def _unseen(run: Path, end_s: float) -> dict[str, Any] | None:
    table = _table(run, "unseen")
    if table is None or end_s <= 0:
        return None
    levels = unseen.levels_of(table, end_s)
    order = sorted(levels, key=lambda key: (-float(levels[key].max()), key))
    lines = [_line("all keys", "", np.sum(list(levels.values()), axis=0))]
    lines += [
        _line(f"key {key}", colour, levels[key]) for key, colour in zip(order[:KEYS_SHOWN], style.PALETTE, strict=False)
    ]
    if len(order) > KEYS_SHOWN:
        rest = np.sum([levels[key] for key in order[KEYS_SHOWN:]], axis=0)
        lines.append(_line(f"{len(order) - KEYS_SHOWN} other keys", style.OTHERS, rest))
    return {"cells": unseen.CELLS, "lines": lines}


def _lag(run: Path, end_s: float) -> dict[str, Any] | None:
    table = _table(run, "realtime_lag")
    if table is None or end_s <= 0:
        return None
    count = lag.cells(table)
    whole = lag.levels_of(table, [""] * table.num_rows, end_s, count)[""]
    worst = _worst_keys(table, end_s, count)
    lines = [_line("maximum of all", "", whole)]
    lines += [
        _line(f"key {key}", colour, level) for (key, level), colour in zip(worst.items(), style.PALETTE, strict=False)
    ]
    return {"cells": count, "lines": lines}


def _worst_keys(table: pa.Table, end_s: float, count: int) -> Mapping[Any, Floats]:
    levels = lag.levels_of(table, table.column("key").to_pylist(), end_s, count)
    order = sorted(levels, key=lambda key: (-float(np.nanmax(levels[key])), str(key)))
    return {key: levels[key] for key in order[:KEYS_SHOWN]}


def _line(name: str, colour: str, values: Floats) -> dict[str, Any]:
    """Returns a line of a chart. A line with an empty colour is drawn in the colour of the text."""
    return {"name": name, "colour": colour, "values": _rounded(values)}


def faults(spans: Sequence[Span], end_s: float) -> list[dict[str, Any]]:
    """Groups the faults by name, as on the plots.

    Returns {name, colour, spans: [{begin, end, open, hit, label, effect, detail}]} for each name.
    """
    lanes = fault_bands.lanes(spans)
    return [
        {
            "name": name,
            "colour": fault_bands.colour(list(lanes), name),
            "spans": [_span(span, end_s) for span in mine],
        }
        for name, mine in lanes.items()
    ]


def _span(span: Span, end_s: float) -> dict[str, Any]:
    return {
        "begin": span.begin_ns / 1e9,
        "end": end_s if span.end_ns is None else span.end_ns / 1e9,
        "open": span.end_ns is None,
        "hit": "+".join(span.hit),
        "label": span.label,
        "effect": span.took_effect,
        "detail": "; ".join(filter(None, (span.detail, _leaders(span)))),
    }


def _leaders(span: Span) -> str:
    count = len(span.new_leaders)
    if not count:
        return ""
    nodes = ", ".join(sorted({str(node) for node in span.new_leaders.values()}))
    return f"{count} partition{'' if count == 1 else 's'} got a new leader ({nodes})"


def moments(times: Sequence[float], end_s: float) -> dict[str, Any]:
    """Counts how many of the times are in each of CELLS equal intervals of the run. Returns {cells, counts, known}.

    cells   numbers of the intervals that contain at least one time, in ascending order
    counts  how many times each of these intervals contains
    known   how many times there are
    """
    if not times or end_s <= 0:
        return {"cells": [], "counts": [], "known": 0}
    cells = np.clip((np.asarray(times) / end_s * CELLS).astype(np.int64), 0, CELLS - 1)
    found, counts = np.unique(cells, return_counts=True)
    return {"cells": found.tolist(), "counts": counts.tolist(), "known": len(times)}
