"""Lays out one window of a key's offsets for an order page: a line per offset and value, and a column per pass.

A pass is a sequence of polls by one process with ascending offsets. When the process polls an offset that is not higher
than its previous one, a new pass begins. A consumer that only reads forward therefore needs one column. Each time a
consumer moves back, it needs one more column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.report.order.key_records import Records, Window
from harness.stored.operations_and_records import Row

PASSES_MAX: Final = 72


@dataclass(frozen=True, slots=True)
class Line:
    """One offset, with one value that was sent to this offset or polled from it.

    writers  the sends of this value
    readers  number of polls of this value at this offset
    """

    offset: int
    value: Any
    writers: tuple[Row, ...]
    readers: int


@dataclass(frozen=True, slots=True)
class Hole:
    """A range of offsets (inclusive) without a known record."""

    begin: int
    end: int


@dataclass(slots=True)
class Pass:
    """A column of the page that shows a key's log offset by offset: consecutive polls of one process.

    The offsets ascend within a pass; a poll that goes back begins a new pass."""

    process: int
    begin_ns: int
    polls: list[Row] = field(default_factory=list)

    def runs(self) -> Iterator[list[Row]]:
        """Yields the polls of the pass in groups, one group for each operation."""
        run: list[Row] = []
        for row in self.polls:
            if run and run[-1].op != row.op:
                yield run
                run = []
            run.append(row)
        if run:
            yield run


@dataclass(frozen=True)
class Section:
    """The layout of one window of a key. `left_out` is the number of passes that were omitted for lack of space."""

    window: Window
    lines: Sequence[Line | Hole]
    passes: Sequence[Pass]
    left_out: int


def lines_of(records: Records, window: Window) -> list[Line | Hole]:
    """Returns the lines of a window in order of offset, with a hole between lines whose offsets are not consecutive."""
    low, high = window
    values: dict[int, dict[str, Any]] = {}
    counts: dict[tuple[int, str], int] = {}
    for row in (*records.sends_, *records.polls_):
        if row.offset is not None and low <= row.offset <= high:
            name = repr(row.value)
            values.setdefault(row.offset, {})[name] = row.value
            if not row.sent:
                counts[row.offset, name] = counts.get((row.offset, name), 0) + 1
    writers = _writers(records)
    lines: list[Line | Hole] = []
    for offset in sorted(values):
        last = _end(lines[-1]) if lines else None
        if last is not None and last + 1 < offset:
            lines.append(Hole(last + 1, offset - 1))
        for name, value in sorted(values[offset].items(), key=lambda item: (len(item[0]), item[0])):
            readers = counts.get((offset, name), 0)
            lines.append(Line(offset, value, _at(writers.get(name, ()), offset), readers))
    return lines


def _writers(records: Records) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in records.sends_:
        found.setdefault(repr(row.value), []).append(row)
    return found


def _at(rows: Sequence[Row], offset: int) -> tuple[Row, ...]:
    """Returns the sends in `rows` (all of one value) that have this offset; all of `rows` if none has it."""
    here = tuple(row for row in rows if row.offset == offset)
    return here or tuple(rows)


def _end(line: Line | Hole) -> int:
    return line.end if isinstance(line, Hole) else line.offset


def passes_of(polls: Sequence[Row], window: Window) -> list[Pass]:
    """Groups the polls in a window into passes: sequences of polls of one process with ascending offsets.

    polls  polls of the key, in the order of the history
    """
    low, high = window
    done: list[Pass] = []
    last: dict[int, Pass] = {}
    for row in polls:
        if row.offset is None or not low <= row.offset <= high:
            continue
        current = last.get(row.process)
        if current is None or (current.polls[-1].offset or 0) >= row.offset:
            current = last[row.process] = Pass(row.process, row.complete_ns or row.invoke_ns)
            done.append(current)
        current.polls.append(row)
    return sorted(done, key=lambda one: one.begin_ns)


def section(records: Records, window: Window, marked: frozenset[int]) -> Section:
    """Lays out a window with at most PASSES_MAX passes.

    If there are more, those that contain an operation in `marked` are preferred, then the earliest.
    """
    passes = passes_of(records.polls_, window)
    if len(passes) > PASSES_MAX:
        ordered = sorted(range(len(passes)), key=lambda n: (not any(row.op in marked for row in passes[n].polls), n))
        kept = sorted(ordered[:PASSES_MAX])
    else:
        kept = list(range(len(passes)))
    return Section(window, lines_of(records, window), [passes[n] for n in kept], len(passes) - len(kept))


def windows_of(offsets: Sequence[int], margin: int, rows_max: int) -> list[Window]:
    """Returns windows that contain the offsets: each reaches from `margin` below an offset to `margin` above it.

    Windows that touch are merged. `offsets` begins with the most important ones. When the windows would contain more
    than `rows_max` offsets in total, the remaining ones are left out. The window of the first offset is always
    returned.
    """
    chosen: list[Window] = []
    for offset in offsets:
        window = (max(0, offset - margin), offset + margin)
        joined = _joined([*chosen, window])
        if chosen and sum(high - low + 1 for low, high in joined) > rows_max:
            break
        chosen = joined
    return chosen


def _joined(windows: Sequence[Window]) -> list[Window]:
    found: list[Window] = []
    for low, high in sorted(windows):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found
