"""Chooses which witnesses the run page shows in full, and which it lists in one line each.

The chosen witnesses are the worst ones, and others from all parts of the run. A user who selects a range of time on the
page will therefore probably find some witnesses in this range. For a witness that is only listed, the page shows the
command that explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import AnomalyFound
from harness.model.values_as_text import plain
from harness.report.text import pipeline_moments, witness_lookup
from harness.report.text.involved_ops import named_ops, pairs
from harness.report.text.witness_text import witness_text
from harness.stored.fault_spans import Span
from harness.stored.operations_and_records import Lookup

WORST: Final = 3  # witnesses that are always shown, whatever their time
CELLS: Final = 120  # equal intervals of the run; each gets the same number of lines, where possible
TIMES_MAX: Final = 6_000  # witnesses of an anomaly whose times are looked up, evenly distributed
KEYS_MAX: Final = 24  # keys in which records are looked up, for witnesses that name no operation
TEXT_MAX: Final = 160  # characters per line


@dataclass(frozen=True, slots=True)
class Timed:
    """A witness with its number and its time.

    number  number of the witness among those of its anomaly, from 1
    at_s    time in seconds since the run began; None if it is not known
    """

    number: int
    witness: Mapping[str, Any]
    at_s: float | None


def timed(run: Path, anomaly: AnomalyFound, facts: Lookup | None) -> list[Timed]:
    """Returns an anomaly's worst witnesses and an evenly spaced sample of the others, with their times.

    The time of a witness is the end of the first operation that it names. For a witness that names no operation, it is
    the end of the send of its record. The witness of a pipeline anomaly contains its time.
    """
    step = max(1, -(-anomaly.count // TIMES_MAX))
    kept = [
        (number, witness)
        for number, witness in enumerate(witness_lookup.numbered(run, anomaly), 1)
        if number <= len(anomaly.witnesses) or number % step == 0
    ]
    times = _times(anomaly.name, [witness for _, witness in kept], facts)
    return [Timed(number, witness, at) for (number, witness), at in zip(kept, times, strict=True)]


def _times(name: str, witnesses: Sequence[Mapping[str, Any]], facts: Lookup | None) -> list[float | None]:
    if pipeline_moments.is_one(name):
        return [_seconds(max(pipeline_moments.moments(name, one), default=None)) for one in witnesses]
    if facts is None:
        return [None] * len(witnesses)
    first = [next((op for op in named_ops(one) if op >= 0), None) for one in witnesses]
    op_facts = facts.ops(op for op in first if op is not None)
    ends: list[int | None] = [op_facts[op].at_ns if op in op_facts else None for op in first]
    named = [None if op is not None else next(pairs(one), None) for op, one in zip(first, witnesses, strict=True)]
    sent = sends_ns(facts, [pair for pair in named if pair is not None])
    return [
        _seconds(end if pair is None else sent.get((repr(pair[0]), repr(pair[1]))))
        for end, pair in zip(ends, named, strict=True)
    ]


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else round(time_ns / 1e9, 4)


def sends_ns(facts: Lookup, named: Iterable[tuple[Any, Any]]) -> dict[tuple[str, str], int]:
    """Returns (repr(key), repr(value)) -> the time at which the send of this record ended.

    named  the (key, value) pairs of the records; only those of the KEYS_MAX keys with the most records are looked up
    """
    by_key: dict[str, tuple[Any, dict[str, Any]]] = {}
    for key, value in named:
        by_key.setdefault(repr(key), (key, {}))[1][repr(value)] = value
    times: dict[tuple[str, str], int] = {}
    for key, values in sorted(by_key.values(), key=lambda one: -len(one[1]))[:KEYS_MAX]:
        for row in facts.rows("sends", key, TIMES_MAX, values=list(values.values())):
            end = row.invoke_ns if row.complete_ns is None else row.complete_ns
            times.setdefault((repr(key), repr(row.value)), end)
    return times


def of_messages(run: Path, anomaly: AnomalyFound, facts: Lookup | None) -> list[float]:
    """Returns the times, in seconds, at which the sends of an `unseen` anomaly's records ended.

    The records are in the anomaly's Parquet file, which has one row per key. If there are many records, a sample is
    used.
    """
    if facts is None:
        return []
    rows = [one for one in witness_lookup.stored(run, anomaly.name) if one.get("messages")]
    named = [(one["key"], value) for one in rows for value in one["messages"]]
    if not rows and anomaly.witnesses:
        named = [pair for pair in pairs(anomaly.witnesses[0]) if pair[1] is not None]
    step = max(1, -(-len(named) // TIMES_MAX))
    return [time / 1e9 for time in sends_ns(facts, named[::step]).values()]


def shown(every: Sequence[Timed], room: int, faults: Sequence[Span]) -> list[Timed]:
    """Chooses at most `room` witnesses to show in full.

    First it takes the worst ones, then one for each fault that was active without a chosen witness. It then repeatedly
    adds the witness that is farthest in time from those already chosen.
    """
    chosen = list(every[: min(room, WORST)])
    rest = [one for one in every[len(chosen) :] if one.at_s is not None]
    for span in faults:
        if len(chosen) < room and not any(_on(span, one) for one in chosen):
            met = next((one for one in rest if _on(span, one)), None)
            if met is not None:
                chosen.append(met)
    taken = {one.number for one in chosen}
    rest = [one for one in rest if one.number not in taken]
    times = [one.at_s for one in chosen if one.at_s is not None]
    while len(chosen) < room and rest:
        far = max(rest, key=lambda one: (_apart(one, times), -one.number))
        rest.remove(far)
        chosen.append(far)
        times.append(far.at_s or 0.0)
    numbers = {one.number for one in chosen}
    chosen += [one for one in every if one.number not in numbers][: room - len(chosen)]
    return chosen


def _on(span: Span, one: Timed) -> bool:
    if one.at_s is None:
        return False
    return span.begin_ns <= one.at_s * 1e9 and (span.end_ns is None or one.at_s * 1e9 <= span.end_ns)


def _apart(one: Timed, times: Sequence[float]) -> float:
    """Returns the time between a witness and the nearest of `times`, in seconds."""
    at = one.at_s or 0.0
    return min((abs(at - time) for time in times), default=0.0)


def listed(
    name: str, every: Sequence[Timed], apart: frozenset[int], room: int, end_s: float
) -> list[tuple[int, float, str]]:
    """Chooses at most `room` witnesses to list in one line each.

    Returns (number, seconds, text) of each, in order of time. The run is divided into CELLS intervals. The first
    witness of each interval is chosen, then the second of each, and so on.

    apart  numbers of the witnesses that are shown in full, and so not listed
    """
    cells: dict[int, int] = {}
    ranked = []
    for one in every:
        if one.at_s is None or one.number in apart:
            continue
        cell = int(one.at_s / end_s * CELLS) if end_s > 0 else 0
        cells[cell] = cells.get(cell, 0) + 1
        ranked.append((cells[cell], one.number, one))
    kept = [one for _, _, one in sorted(ranked, key=lambda row: row[:2])[: max(0, room)]]
    return sorted(
        ((one.number, one.at_s or 0.0, _line(name, one.witness)) for one in kept),
        key=lambda row: (row[1], row[0]),
    )


def _line(name: str, witness: Mapping[str, Any]) -> str:
    """Describes a witness in one line, without looking up its operations."""
    text = plain(witness_text(name, witness, None))
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
