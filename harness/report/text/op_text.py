"""Describes the micro-operations of an operation in words.

The description is limited to certain keys and values, called the focus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from harness.model.values_as_text import at_offset, many, plain
from harness.report.text.nearby_ops import same

LINES_MAX: Final = 6
RECORDS_MAX: Final = 9
NEAR: Final = 2

# Text of a key -> its values in question; empty: all of them. Keys are given as text because they may have any type.
Focus = Mapping[str, frozenset[Any]]


def focus_of(places: Sequence[tuple[Any, Any]]) -> Focus:
    """Returns a focus for (key, value) pairs. A pair with the value None puts all values of its key in focus."""
    by_key: dict[str, set[Any]] = {}
    for key, value in places:
        mine = by_key.setdefault(plain(key), set())
        if value is not None and not isinstance(value, list | dict):
            mine.add(value)
    return {key: frozenset(values) for key, values in by_key.items()}


def micro_ops(value: Any, focus: Focus) -> list[str]:
    """Describes the micro-operations of an operation on keys in focus, one line each, and counts those on
    other keys."""
    if not isinstance(value, list):
        return []
    lines, others = [], 0
    for mop in value:
        mop_lines = _mop(mop, focus)
        if mop_lines:
            lines += mop_lines
        elif isinstance(mop, list) and mop and mop[0] in ("send", "poll"):
            others += 1
    omitted = len(lines) - LINES_MAX
    lines[LINES_MAX:] = [f"... and {many(omitted, 'more line')} like these"] if omitted > 0 else []
    if others and lines:
        lines.append(f"and {many(others, 'micro-operation')} on other keys")
    return lines


def _mop(mop: Any, focus: Focus) -> list[str]:
    if not isinstance(mop, list) or not mop:
        return []
    if mop[0] == "send" and len(mop) == 3 and (not focus or plain(mop[1]) in focus):
        offset, value = mop[2] if isinstance(mop[2], list) and len(mop[2]) == 2 else (None, mop[2])
        return [f"sent {plain(value)} to key {plain(mop[1])}{at_offset(offset)}"]
    if mop[0] == "poll" and len(mop) == 2 and isinstance(mop[1], list):
        return [
            _poll(key, pairs, focus.get(plain(key), frozenset()))
            for key, pairs in mop[1]
            if (not focus or plain(key) in focus) and pairs
        ]
    return []


def _poll(key: Any, pairs: Sequence[Sequence[Any]], wanted: frozenset[Any]) -> str:
    count = many(len(pairs), "record")
    span = f"offset {pairs[0][0]}" if len(pairs) == 1 else f"offsets {pairs[0][0]} to {pairs[-1][0]}"
    head = f"polled {count} of key {plain(key)}, {span}"
    chosen = _chosen(pairs, wanted)
    if not chosen:
        return head
    text, last = "", -1
    for number in chosen:
        text += (" ... " if number > last + 1 else " ") + f"{pairs[number][0]}:{plain(pairs[number][1])}"
        last = number
    return f"{head} (offset:value{text}{' ...' if last + 1 < len(pairs) else ''})"


def _chosen(pairs: Sequence[Sequence[Any]], wanted: frozenset[Any]) -> list[int]:
    """Returns the positions of the records of a poll that are described.

    These are records with wanted values, records at which the offsets do not ascend, and a few neighbours of both. If
    there are no such records, returns the first RECORDS_MAX positions. If the poll has at most RECORDS_MAX records,
    returns all positions.
    """
    if len(pairs) <= RECORDS_MAX:
        return list(range(len(pairs)))
    hits = [n for n, pair in enumerate(pairs) if any(same(pair[1], value) for value in wanted)]
    hits += [n for n, (one, two) in enumerate(pairwise(pairs)) if two[0] <= one[0]]
    kept = sorted({m for hit in hits for m in range(max(0, hit - NEAR), hit + NEAR + 1) if m < len(pairs)})
    return (kept or list(range(RECORDS_MAX)))[: 2 * RECORDS_MAX]
