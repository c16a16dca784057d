"""Determines what an order page highlights in one of its sections, and assigns colours to anomalies.

A section shows a range of offsets. Its lines, polls and sends are highlighted if a witness of an anomaly names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.report.order.layout import Line, Section
from harness.report.order.marks import Mark, Spot
from harness.stored.operations_and_records import Row

# Distinct from the colours of outcomes, and distinguishable with red-green colour blindness.
COLOURS: Final = ("#D55E00", "#009E73", "#5B4EA0", "#56B4E9", "#8C6D31", "#CC79A7", "#1a1a1a", "#767676")


def colour(names: Sequence[str], name: str) -> str:
    """Returns the colour of the anomaly `name` on a page.

    names  all anomalies of the page; if there are more anomalies than colours, the last ones share a colour
    """
    return COLOURS[min(names.index(name), len(COLOURS) - 1)]


@dataclass(frozen=True)
class Flagged:
    """What is highlighted in a section. Each mark stands for one witness of an anomaly.

    lines  (offset, repr of the value) -> marks
    polls  (op, offset) -> marks
    sends  (op, repr of the value) -> marks
    """

    lines: Mapping[tuple[int, str], Sequence[Mark]]
    polls: Mapping[tuple[int, int], Sequence[Mark]]
    sends: Mapping[tuple[int, str], Sequence[Mark]]


def flag(section: Section, marks: Sequence[Mark]) -> Flagged:
    """Returns the lines, polls and sends of a section that the marks refer to, each with its marks."""
    lines: dict[tuple[int, str], list[Mark]] = {}
    polls: dict[tuple[int, int], list[Mark]] = {}
    sends: dict[tuple[int, str], list[Mark]] = {}
    by_value: dict[str, list[Line]] = {}
    by_offset: dict[int, list[Line]] = {}
    for line in section.lines:
        if isinstance(line, Line):
            by_value.setdefault(repr(line.value), []).append(line)
            by_offset.setdefault(line.offset, []).append(line)
    by_op: dict[int, list[Row]] = {}
    for one_pass in section.passes:
        for row in one_pass.polls:
            by_op.setdefault(row.op, []).append(row)

    def put(one_pass: dict[Any, list[Mark]], at: Any, mark: Mark) -> None:
        marked = one_pass.setdefault(at, [])
        if not marked or marked[-1] is not mark:
            marked.append(mark)

    for mark in marks:
        for spot in mark.spots:
            for line in (
                by_offset.get(spot.offset or 0, ()) if spot.kind == "row" else by_value.get(repr(spot.value), ())
            ):
                put(lines, (line.offset, repr(line.value)), mark)
                if spot.kind == "sent":
                    for writer in line.writers:
                        if spot.op is None or writer.op == spot.op:
                            put(sends, (writer.op, repr(line.value)), mark)
            for row in _polled(spot, by_op):
                put(polls, (row.op, row.offset), mark)
                put(lines, (row.offset or 0, repr(row.value)), mark)
    return Flagged(lines, polls, sends)


def _polled(spot: Spot, by_op: Mapping[int, Sequence[Row]]) -> Sequence[Row]:
    rows = by_op.get(spot.op, ()) if spot.op is not None else ()
    if spot.kind == "ended":
        return rows[-1:]
    if spot.kind == "began":
        return rows[:1]
    return [row for row in rows if spot.kind == "polled" and repr(row.value) == repr(spot.value)]


def anchor(mark: Mark) -> str:
    """Returns the HTML id of the description of a mark's witness."""
    return f"w-{mark.anomaly}-{mark.number}"
