"""Prepares the anomalies and witnesses of the run page.

At most SHOWN_MAX witnesses are shown in full. This module divides them among the anomalies; those that affect the
verdict come first. `choose_witnesses` then chooses the witnesses of each anomaly. Up to LISTED_MAX more are listed in
one line each, and `harness explain` shows the rest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checker.anomalies import cycle_prose
from harness.model.check_result import AnomalyFound, Result
from harness.model.values_as_text import plain
from harness.report import order_paths
from harness.report.page import choose_witnesses, offset_strip, operation_lanes
from harness.report.page.choose_witnesses import Timed
from harness.report.page.offset_strip import Strips
from harness.report.page.operation_lanes import Around
from harness.report.text import (
    gather_explanation,
    op_text,
    pipeline_moments,
    print_explanation,
    witness_lookup,
)
from harness.report.text.gather_explanation import Explanation, InvolvedOp
from harness.stored.operations_and_records import Lookup, of_run

SHOWN_MAX: Final = 30
OF_EACH: Final = 10
OF_EACH_FINE: Final = 2  # witnesses of an anomaly that does not affect the verdict
LISTED_MAX: Final = 1500
DURATIONS: Final = 5  # maximum margin of time around a witness, in durations of its longest operation
TEXT_MAX: Final = 3000  # characters of a description or a log line
SLUG: Final = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class OpText:
    """An operation that a witness names, as text: a headline, and lines about what it sent and polled."""

    head: str
    type: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One witness as the page shows it.

    slug            HTML id of the witness on the page
    chain           the reasons for the edges of a cycle, as sentences; empty for other witnesses
    more_ops        number of operations of the witness that are not in `ops`
    faults          the faults that were active, as text
    before          the last fault that ended before the witness, as text
    timed           whether the time of the witness is known; otherwise, it is not known which faults were active
    nothing         the text to show if no fault was active
    logs            (time, node, text) of relevant lines of the brokers' logs
    begin_s, end_s  begin and end of the witness, in seconds; None if not known
    at_s            time of the witness if the anomaly is one of a pipeline; otherwise None
    data            data for the drawings: {lanes, names, strips, polls, graph}
    pages           (text, path relative to the run) of the existing order pages of its keys
    """

    slug: str
    number: int
    text: str
    chain: tuple[str, ...]
    ops: tuple[OpText, ...]
    more_ops: int
    faults: tuple[str, ...]
    before: str
    timed: bool
    nothing: str
    logs: tuple[tuple[str, str, str], ...]
    begin_s: float | None
    end_s: float | None
    at_s: float | None
    data: Mapping[str, Any]
    pages: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """An anomaly with its witnesses.

    joined  whether the anomaly has a single witness, which contains many records
    more    whether `harness explain` can show the other witnesses
    times   times of the witnesses or, if `joined`, of the records; in seconds, ascending
    listed  (number, seconds, text) of the witnesses that are listed in one line each
    """

    slug: str
    found: AnomalyFound
    summary: str
    promise: str
    shown: tuple[Shown, ...]
    more: bool
    times: tuple[float, ...]
    listed: tuple[tuple[int, float, str], ...]

    @property
    def joined(self) -> bool:
        return self.found.name in witness_lookup.JOINED

    @property
    def verb(self) -> str:
        """The verb that says what happened at `times`; its subject is the witnesses or, if `joined`, the records."""
        return "were sent" if self.joined else "happened" if pipeline_moments.is_one(self.found.name) else "began"

    @property
    def rest(self) -> int:
        """The lowest number of a witness that is not shown in full."""
        numbers = {one.number for one in self.shown}
        return next(number for number in itertools.count(1) if number not in numbers)


def groups_of_run(run: Path, result: Result, ops: int, end_s: float) -> list[Group]:
    """Returns a group for each anomaly of a run.

    ops    number of operations in the history
    end_s  duration of the history in seconds
    """
    facts = of_run(run)
    slugs = _slugs([anomaly.name for anomaly in result.anomalies])
    timed_witnesses = {anomaly.name: choose_witnesses.timed(run, anomaly, facts) for anomaly in result.anomalies}
    faults = facts.spans if facts is not None else []
    explanations = {
        anomaly.name: [
            gather_explanation.about(run, anomaly, one.number, one.witness)
            for one in choose_witnesses.shown(timed_witnesses[anomaly.name], room, faults)
        ]
        for anomaly, room in _rooms(result)
    }
    every = [one for mine in explanations.values() for one in mine]
    margin = operation_lanes.margin_ns(ops, end_s)
    wanted = [_around(one, margin) for one in every]
    operation_lanes.read(run, wanted)
    strips = offset_strip.of_witnesses(facts, [one.involved for one in every])
    surroundings = {
        (one.anomaly.name, one.number): (around, offset_strips)
        for one, around, offset_strips in zip(every, wanted, strips, strict=True)
    }
    lines = LISTED_MAX // max(1, len(result.anomalies))
    return [
        Group(
            slugs[anomaly.name],
            anomaly,
            _sentence(anomaly.summary),
            print_explanation.PROMISED[anomaly.promised],
            tuple(
                _shown(slugs[anomaly.name], one, *surroundings[anomaly.name, one.number])
                for one in explanations[anomaly.name]
            ),
            anomaly.name not in witness_lookup.JOINED and bool(anomaly.witnesses),
            _times(run, anomaly, timed_witnesses[anomaly.name], facts),
            ()
            if anomaly.name in witness_lookup.JOINED
            else tuple(
                choose_witnesses.listed(
                    anomaly.name,
                    timed_witnesses[anomaly.name],
                    frozenset(one.number for one in explanations[anomaly.name]),
                    lines,
                    end_s,
                )
            ),
        )
        for anomaly in result.anomalies
    ]


def _rooms(result: Result) -> list[tuple[AnomalyFound, int]]:
    """Returns the maximum number of witnesses to show in full for each anomaly; more if it affects the verdict."""
    rooms = []
    remaining = SHOWN_MAX
    share = max(1, SHOWN_MAX // max(1, len(result.anomalies)))
    for anomaly in sorted(result.anomalies, key=lambda anomaly: not anomaly.bad):
        room = min(OF_EACH if anomaly.bad else OF_EACH_FINE, share, remaining)
        rooms.append((anomaly, room))
        remaining -= min(room, anomaly.count)
    return rooms


def _around(one: Explanation, margin: int) -> Around:
    """Returns the windows of time around a witness, still without operations.

    margin  time to show before and after an operation of the witness, reduced if all its operations are short
    """
    longest = max((end - begin for begin, end in one.moments), default=0)
    if not pipeline_moments.is_one(one.anomaly.name):  # moments of pipeline anomalies have no duration
        margin = min(margin, max(DURATIONS * longest, operation_lanes.MARGINS_NS[0]))
    return Around(
        operation_lanes.windows_of([*one.moments, *one.surrounding], margin),
        frozenset(one.involved.ops),
        events=operation_lanes.events_of(one.anomaly.name, one.witness),
    )


def _sentence(text: str) -> str:
    words = plain(text).rstrip(".")
    return f"{words[:1].upper()}{words[1:]}."


def _slugs(names: Sequence[str]) -> dict[str, str]:
    """Returns name -> a unique id that is safe in a URL."""
    slugs: dict[str, str] = {}
    for name in names:
        slug = SLUG.sub("-", name)[:40].strip("-") or "anomaly"
        while slug in slugs.values():
            slug += "-x"
        slugs[name] = slug
    return slugs


def _times(run: Path, anomaly: AnomalyFound, witnesses: Sequence[Timed], facts: Lookup | None) -> tuple[float, ...]:
    """Returns the times of an anomaly's witnesses in seconds, ascending.

    An anomaly with a single joint witness has the times of its records instead.
    """
    if anomaly.name in witness_lookup.JOINED:
        return tuple(sorted(choose_witnesses.of_messages(run, anomaly, facts)))
    return tuple(sorted(one.at_s for one in witnesses if one.at_s is not None))


def _shown(slug: str, one: Explanation, around: Around, strips: Strips) -> Shown:
    moments = one.moments
    size = one.witness.get("scc-size")
    whole = size if type(size) is int and "cycle" not in one.witness else len(one.involved.ops)
    data = {
        "lanes": operation_lanes.data(around, strips.touched) if moments or one.surrounding else None,
        "names": {str(op.id): op.name for op in one.ops},
        "strips": list(strips.strips),
        "polls": not pipeline_moments.is_one(one.anomaly.name),  # whether the history contains the polls
        "graph": _graph(one),
    }
    past = f"{one.before.label}, until {(one.before.end_ns or 0) / 1e9:.3f} s" if one.before else ""
    return Shown(
        slug=f"{slug}-{one.number}",
        number=one.number,
        text=_cut(plain(one.text)),
        chain=tuple(_cut(plain(reason)) for reason in one.chain),
        ops=tuple(_op(op, one) for op in one.ops),
        more_ops=max(0, whole - len(one.ops)),
        faults=tuple(_fault(span) for span in one.spans),
        before=past,
        timed=bool(moments or one.surrounding),
        nothing=print_explanation.nothing_on(one),
        logs=tuple((f"{line.time_ns / 1e9:.3f} s", plain(line.node), _cut(line.text)) for line in one.logs),
        begin_s=min(begin for begin, _ in moments) / 1e9 if moments else None,
        end_s=max(end for _, end in moments) / 1e9 if moments else None,
        at_s=max(at) / 1e9 if (at := pipeline_moments.moments(one.anomaly.name, one.witness)) else None,
        data=data,
        pages=tuple(
            (f"key {plain(key)}", f"{order_paths.NAME}/{page.name}")
            for key in one.involved.keys[:4]
            if (page := order_paths.page(one.run, key)).is_file()
        ),
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _op(op: InvolvedOp, one: Explanation) -> OpText:
    lines = [*op_text.micro_ops(op.value, one.involved.focus), *print_explanation.extras(op.extra)]
    kind = op.fact.type if op.fact is not None else ""
    return OpText(_cut(plain(print_explanation.op_line(op))), kind, tuple(_cut(plain(line)) for line in lines))


def _fault(span: Any) -> str:
    end = "the end" if span.end_ns is None else f"{span.end_ns / 1e9:.3f} s"
    doubt = " (no effect)" if span.took_effect is False else ""
    return f"{span.label}{doubt}, {span.begin_ns / 1e9:.3f} s to {end}"


def _graph(one: Explanation) -> dict[str, Any] | None:
    """Returns the graph of a cycle; None if the witness is not a cycle.

    nodes  [name, op, process, type]
    edges  [from, to, type, key]
    """
    if not one.chain:
        return None
    names = cycle_prose.let(one.witness)
    facts = {op.id: op.fact for op in one.ops}
    order = {op: number for number, op in enumerate(names)}
    cycle, steps = one.witness["cycle"], one.witness["steps"]
    nodes = [
        [name, op, fact.process if (fact := facts.get(op)) else None, fact.type if fact else ""]
        for op, name in names.items()
    ]
    edges = [
        [
            order[cycle[number]],
            order[cycle[number + 1]],
            plain(step.get("type", "")),
            plain(step["key"]) if "key" in step else "",
        ]
        for number, step in enumerate(steps)
    ]
    return {"nodes": nodes, "edges": edges}
