"""Computes strips of offsets around the records that a witness names: each offset's value, its writer and its readers.

The records are read and laid out as on the order pages, but with smaller windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.model.values_as_text import plain
from harness.report.order import key_records, layout
from harness.report.order.key_records import Records, Window
from harness.report.order.layout import Hole, Line, Pass
from harness.report.text.involved_ops import Involved
from harness.stored.fault_spans import Span
from harness.stored.operations_and_records import Lookup, Row

KEYS_MAX: Final = 3
PLACES_MAX: Final = 12
AROUND: Final = 6  # offsets on each side
CELLS_MAX: Final = 64
PASSES_MAX: Final = 8
VALUE_MAX: Final = 40
ROWS_MAX: Final = 40_000  # maximum number of polls, and of sends, that are read for a key


@dataclass(frozen=True, slots=True)
class Strips:
    """The strips of one witness.

    strips   one strip for each key, with the fields that `of_witnesses` lists
    touched  id of an operation -> what it sent and polled at the offsets of the strips, as text
    """

    strips: tuple[Mapping[str, Any], ...]
    touched: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Log:
    """The sends and polls of one key.

    sends  offset -> (position in the order of the history, row) of each send
    polls  offset -> (position in the order of the history, row) of each poll
    sent   repr(value) -> sends of this value
    spans  when each fault was active
    cut    whether some polls of the key were left out
    """

    sends: Mapping[int, Sequence[tuple[int, Row]]]
    polls: Mapping[int, Sequence[tuple[int, Row]]]
    sent: Mapping[str, Sequence[Row]]
    spans: Sequence[Span]
    cut: bool


def of_witnesses(facts: Lookup | None, every: Sequence[Involved]) -> list[Strips]:
    """Returns the strips of each witness. A key that several witnesses name is read only once.

    A strip has these fields:

    key       the key as text
    cut       whether some polls were left out, so that the numbers of polls may be too low
    sections  one for each window of offsets, with these fields:
      cells   [offset, value, writer or None, number of polls, 1 if the witness names it else 0]
              or, for a range of offsets without a known record, [first, last]
      passes  [process, begin, [[cell, type, op], ...]] of each pass of a reader (see `layout`), in order of time
      left    number of passes that were omitted for lack of space
    """
    if facts is None:
        return [Strips((), {}) for _ in every]
    wanted: list[list[tuple[Any, list[Window]]]] = []
    by_key: dict[str, tuple[Any, list[Window]]] = {}
    for involved in every:
        mine = []
        for key in involved.keys[:KEYS_MAX]:
            places = _offsets(facts, involved, key)
            if places:
                windows = layout.windows_of(places, AROUND, CELLS_MAX)
                mine.append((key, windows))
                by_key.setdefault(repr(key), (key, []))[1].extend(windows)
        wanted.append(mine)
    logs = {name: _read(facts, key, windows) for name, (key, windows) in by_key.items()}
    return [_strips(involved, mine, logs) for involved, mine in zip(every, wanted, strict=True)]


def _read(facts: Lookup, key: Any, windows: Sequence[Window]) -> Log:
    rows_read = key_records.read(facts, key, sorted(set(windows)), ROWS_MAX)
    found: tuple[dict[int, list[tuple[int, Row]]], ...] = ({}, {})
    sent: dict[str, list[Row]] = {}
    for by_offset, rows in zip(found, (rows_read.sends_, rows_read.polls_), strict=True):
        for number, row in enumerate(rows):
            if row.offset is not None:
                by_offset.setdefault(row.offset, []).append((number, row))
            if row.sent:
                sent.setdefault(repr(row.value), []).append(row)
    return Log(found[0], found[1], sent, rows_read.spans, len(rows_read.polls_) >= ROWS_MAX)


def _inside(log: Log, windows: Sequence[Window]) -> Records:
    offsets = [offset for low, high in windows for offset in range(low, high + 1)]
    sends, polls = (
        [row for _, row in sorted((one for offset in offsets for one in by_offset.get(offset, ())), key=_place)]
        for by_offset in (log.sends, log.polls)
    )
    values = {repr(row.value) for row in polls} - {repr(row.value) for row in sends}
    more = [row for value in sorted(values) for row in log.sent.get(value, ())]
    return Records([*sends, *more], polls, log.spans)


def _place(one: tuple[int, Row]) -> int:
    return one[0]


def _strips(involved: Involved, wanted: Sequence[tuple[Any, list[Window]]], logs: Mapping[str, Log]) -> Strips:
    strips: list[Mapping[str, Any]] = []
    touched: dict[int, str] = {}
    for key, windows in wanted:
        log = logs[repr(key)]
        inside = _inside(log, windows)
        _touch(touched, inside, key)
        marked, named = frozenset(involved.ops), _wanted(involved, key)
        sections = [_section(inside, window, marked, named) for window in windows]
        strips.append({"key": plain(key), "cut": log.cut, "sections": [one for one in sections if one["cells"]]})
    return Strips(tuple(strips), touched)


def _wanted(involved: Involved, key: Any) -> frozenset[str]:
    """Returns labels for those records of `key` that the witness names: "value V", or "offset N" if it names none."""
    mine = [(offset, value) for named, offset, value in involved.places if repr(named) == repr(key)]
    return frozenset(
        [f"value {value!r}" for _, value in mine if value is not None]
        + [f"offset {offset}" for offset, value in mine if value is None]
    )


def _offsets(facts: Lookup, involved: Involved, key: Any) -> list[int]:
    """Returns the offsets of a key that the witness names.

    If it names none, returns the last offset that its first operation polled and the first offset that its second
    operation polled.
    """
    named = [offset for place_key, offset, _ in involved.places if repr(place_key) == repr(key) and offset is not None]
    if named:
        return list(dict.fromkeys(named))[:PLACES_MAX]
    polled = key_records.polled_by(facts, key, involved.ops)
    mine = [polled[op] for op in involved.ops if op in polled]
    return [*(mine[0][-1:] if mine else ()), *(mine[1][:1] if len(mine) > 1 else ())]


def _section(
    inside: Records, window: tuple[int, int], marked: frozenset[int], wanted: frozenset[str]
) -> dict[str, Any]:
    section = layout.section(inside, window, marked)
    places = {
        (line.offset, repr(line.value)): number for number, line in enumerate(section.lines) if isinstance(line, Line)
    }
    passes = sorted(section.passes, key=lambda one: not any(row.op in marked for row in one.polls))
    kept = sorted(passes[:PASSES_MAX], key=lambda one: one.begin_ns)
    return {
        "cells": [[line.begin, line.end] if isinstance(line, Hole) else _cell(line, wanted) for line in section.lines],
        "passes": [_pass(one, places) for one in kept],
        "left": len(passes) - len(kept) + section.left_out,
    }


def _cell(line: Line, wanted: frozenset[str]) -> list[Any]:
    own = f"value {line.value!r}" in wanted or f"offset {line.offset}" in wanted
    text = plain(line.value)
    value = text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"
    writer = _writer(line.writers[0], len(line.writers)) if line.writers else None
    return [line.offset, value, writer, line.readers, int(own)]


def _writer(row: Row, count: int) -> list[Any]:
    """Returns [outcome, process, op, begin, end or None, number of sends of the value] of a send."""
    end = None if row.complete_ns is None else round(row.complete_ns / 1e9, 6)
    return [row.type, row.process, row.op, round(row.invoke_ns / 1e9, 6), end, count]


def _pass(one: Pass, places: Mapping[tuple[int, str], int]) -> list[Any]:
    polled = [
        [place, row.type, row.op]
        for row in one.polls
        if (place := places.get((row.offset or 0, repr(row.value)))) is not None
    ]
    return [one.process, round(one.begin_ns / 1e9, 3), polled]


def _touch(touched: dict[int, str], inside: Records, key: Any) -> None:
    """Adds a text to `touched` for each operation: which of the records `inside` the operation sent and polled."""
    for rows, verb in ((inside.sends_, "sent"), (inside.polls_, "polled")):
        by_op: dict[int, list[Row]] = {}
        for row in rows:
            by_op.setdefault(row.op, []).append(row)
        for op, mine in by_op.items():
            phrase = _phrase(verb, mine, key)
            touched[op] = f"{touched[op]}; {phrase}" if op in touched else phrase


def _phrase(verb: str, rows: Sequence[Row], key: Any) -> str:
    first, last = rows[0], rows[-1]
    value = plain(first.value)
    what = value if len(value) <= VALUE_MAX else value[: VALUE_MAX - 1] + "…"
    if len(rows) > 1:
        return f"{verb} key {plain(key)} offsets {first.offset}–{last.offset}"
    at = "" if first.offset is None else f" @{first.offset}"
    return f"{verb} key {plain(key)}: {what}{at}"
