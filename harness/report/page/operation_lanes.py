"""Finds the operations around the times of a witness, and arranges them in one lane per process.

A window of time shows operations of the witness, with a margin before and after them. If they are far apart, a witness
has several windows. The more operations the run has per second, the smaller the margin. The windows of all witnesses
are read in one pass over the table of operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checker.anomalies.pipeline_prose import event_text
from harness.model.values_as_text import plain
from harness.report.text import pipeline_moments

WINDOWS_MAX: Final = 4
LANES_MAX: Final = 14
BARS_MAX: Final = 260
READ_MAX: Final = 4000  # maximum number of operations that are read for a window
NEIGHBOURS: Final = 30  # approximate number of operations on each side of a moment
MARGINS_NS: Final = (1_000_000, 400_000_000)
OPEN_NS: Final = 1_000_000_000  # the assumed duration of an operation that never completed
COLUMNS: Final = ("index", "process", "type", "f", "invoke_ns", "complete_ns")

Moment = tuple[int, int]
Event = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Bar:
    """One operation. `end_ns` is None if it never completed."""

    op: int
    process: int
    type: str
    f: str
    begin_ns: int
    end_ns: int | None


@dataclass(slots=True)
class Around:
    """The windows of time around one witness, and the operations that were found in them.

    windows  (begin, end) in nanoseconds, ascending and disjoint
    ops      ids of the operations that the witness names
    events   (process, nanoseconds, text) of each event that a pipeline's instances recorded around the witness
    bars     for each window: id of an operation -> the operation
    more     for each window: number of operations that were left out, because at most READ_MAX are read
    """

    windows: Sequence[Moment]
    ops: frozenset[int]
    events: Sequence[Event] = ()
    bars: list[dict[int, Bar]] = field(default_factory=list)
    more: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bars = [{} for _ in self.windows]
        self.more = [0 for _ in self.windows]


def margin_ns(ops: int, end_s: float) -> int:
    """Returns how much time to show before and after a moment, in nanoseconds.

    The time is long enough for about NEIGHBOURS operations if `ops` operations take `end_s` seconds, but always within
    the limits MARGINS_NS.
    """
    low, high = MARGINS_NS
    return int(min(max(NEIGHBOURS * end_s * 1e9 / max(ops, 1), low), high))


def windows_of(moments: Iterable[Moment], margin: int, most: int = WINDOWS_MAX) -> list[Moment]:
    """Returns windows of time around the moments, with a margin before and after, in ascending order.

    Windows that are at most `margin` apart are merged. If there are still more than `most`, those closest to each other
    are merged until `most` are left.
    """
    found: list[Moment] = []
    for begin, end in sorted((max(0, begin - margin), end + margin) for begin, end in moments):
        if found and begin <= found[-1][1] + margin:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    while len(found) > most:
        gaps = [after[0] - before[1] for before, after in itertools.pairwise(found)]
        near = gaps.index(min(gaps))
        found[near : near + 2] = [(found[near][0], found[near + 1][1])]
    return found


def read(run: Path, wanted: Sequence[Around]) -> None:
    """Reads the operations in the windows of all witnesses, in one pass over the table, and adds them to `wanted`.

    If a file of the table is damaged, reading ends there, without an error.
    """
    try:
        for file in sorted((run / "tables" / "ops").glob("*.parquet")):
            for batch in pq.ParquetFile(file).iter_batches(1 << 18, columns=list(COLUMNS)):
                _add(batch, wanted)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return


def _add(batch: pa.RecordBatch, wanted: Sequence[Around]) -> None:
    begin = batch.column("invoke_ns").to_numpy(zero_copy_only=False)
    done = batch.column("complete_ns")
    is_open = done.is_null().to_numpy(zero_copy_only=False)
    end = done.fill_null(0).to_numpy(zero_copy_only=False)
    end = np.where(is_open, begin + OPEN_NS, end)
    first, last = int(begin.min(initial=1 << 62)), int(end.max(initial=-1))
    for around in wanted:
        for number, (low, high) in enumerate(around.windows):
            if first > high or last < low:
                continue
            rows = np.flatnonzero((begin <= high) & (end >= low))
            bars = around.bars[number]
            room = max(0, READ_MAX - len(bars))
            around.more[number] += max(0, len(rows) - room)
            for row in batch.take(pa.array(rows[:room])).to_pylist():
                bars[row["index"]] = Bar(
                    row["index"], row["process"], row["type"], row["f"], row["invoke_ns"], row["complete_ns"]
                )


def events_of(name: str, witness: Mapping[str, Any]) -> list[Event]:
    """Returns (process, nanoseconds, text) of the events that pipeline instances recorded around a witness.

    Only witnesses of pipeline anomalies contain such events.
    """
    return [
        (one["incarnation"], one["time_ns"], plain(event_text(one)))
        for one in pipeline_moments.around(name, witness)
        if type(one.get("incarnation")) is int and one.get("event") is not None
    ]


def data(around: Around, touched: Mapping[int, str]) -> dict[str, Any]:
    """Returns the lanes as plain data.

    Lanes with operations of the witness come first, then lanes with operations at the same offsets, then the others.
    `touched` contains texts about what operations sent and polled at the offsets of the witness.

    windows  [begin, end] in seconds
    lanes    processes, from top to bottom
    bars     for each window: [lane, begin, end or None, type, f, op, 1 if the witness names it else 0, description]
    events   [lane, time, text] of events that a pipeline's instances recorded
    left     [number of lanes, number of operations] that were omitted for lack of space
    """
    every = [bar for bars in around.bars for bar in bars.values()]
    ranks: dict[int, tuple[int, int]] = {}
    for bar in every:
        rank = (0 if bar.op in around.ops else 1 if bar.op in touched else 2, bar.begin_ns)
        ranks[bar.process] = min(rank, ranks.get(bar.process, rank))
    for process, time_ns, _ in around.events:
        ranks[process] = min((0, time_ns), ranks.get(process, (0, time_ns)))
    chosen = sorted(ranks, key=lambda process: (*ranks[process], process))[:LANES_MAX]
    lanes = {process: lane for lane, process in enumerate(chosen)}
    shown, omitted = [], sum(around.more)
    for bars in around.bars:
        mine = [bar for bar in bars.values() if bar.process in lanes]
        kept = _nearest(mine, around.ops, touched)
        omitted += len(bars) - len(kept)
        shown.append([_bar(bar, lanes[bar.process], around.ops, touched) for bar in kept])
    return {
        "windows": [[begin / 1e9, end / 1e9] for begin, end in around.windows],
        "lanes": chosen,
        "bars": shown,
        "events": [
            [lanes[process], round(time_ns / 1e9, 6), text]
            for process, time_ns, text in around.events
            if process in lanes
        ],
        "left": [len(ranks) - len(chosen), omitted],
    }


def _nearest(bars: Sequence[Bar], ops: frozenset[int], touched: Mapping[int, str]) -> list[Bar]:
    """Returns at most BARS_MAX bars of a window, in order of their start.

    Bars of the witness's operations are preferred, then bars at the same offsets, then those closest in time to the
    witness's operations.
    """
    if len(bars) <= BARS_MAX:
        return sorted(bars, key=lambda bar: bar.begin_ns)
    own = np.asarray([bar.begin_ns for bar in bars if bar.op in ops] or [0])

    def order(bar: Bar) -> tuple[int, int]:
        return (
            0 if bar.op in ops else 1 if bar.op in touched else 2,
            int(np.abs(own - bar.begin_ns).min()),
        )

    return sorted(sorted(bars, key=order)[:BARS_MAX], key=lambda bar: bar.begin_ns)


def _bar(bar: Bar, lane: int, ops: frozenset[int], touched: Mapping[int, str]) -> list[Any]:
    end = None if bar.end_ns is None else round(bar.end_ns / 1e9, 6)
    own = int(bar.op in ops)
    return [lane, round(bar.begin_ns / 1e9, 6), end, bar.type, bar.f, bar.op, own, touched.get(bar.op, "")]
