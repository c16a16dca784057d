"""Witnesses with all that is known around each: what the page opens.

Which are shown is settled here: the first ones of every anomaly, those that count against the verdict first,
at most SHOWN_MAX in all. The rest are told by `harness explain`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.model.errors import BadInput
from harness.model.result import AnomalyFound, Result
from harness.report import cycles, explain, explained, found, lookup, optext
from harness.report.explain import Explanation, Told
from harness.report.involved import named_ops, pairs
from harness.report.lookup import Lookup
from harness.report.order import folder as orders
from harness.report.page import lanes, strip
from harness.report.page.lanes import Around
from harness.report.page.strip import Strips
from harness.report.teller import plain

SHOWN_MAX: Final = 30
OF_EACH: Final = 6
OF_EACH_FINE: Final = 2  # of those that do not count
TIMES_MAX: Final = 6_000  # witnesses of an anomaly whose times are looked up, evenly among them
KEYS_MAX: Final = 24  # in which the records of witnesses are looked up that name no operation
DURATIONS: Final = 5  # of its longest operation, at most, are shown on either side
TEXT_MAX: Final = 3000  # characters of a sentence, a line of a log
SLUG: Final = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class OpText:
    """An op of a witness in words: a headline, and what it sent and polled there."""

    head: str
    type: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One witness.

    slug    the id of its place on the page
    begin_s, end_s   when its operations ran; None where that is not known
    data    for the drawings: {lanes, strips, graph, ops}
    pages   order pages of its keys that there are, relative to the run
    """

    slug: str
    number: int
    text: str
    chain: tuple[str, ...]
    ops: tuple[OpText, ...]
    more_ops: int
    faults: tuple[str, ...]
    before: str
    logs: tuple[tuple[str, str, str], ...]
    begin_s: float | None
    end_s: float | None
    data: Mapping[str, Any]
    pages: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One type of anomaly with its witnesses.

    more   whether `harness explain` has those that are not shown
    times  seconds, of many witnesses, ascending
    """

    slug: str
    found: AnomalyFound
    summary: str
    promise: str
    shown: tuple[Shown, ...]
    more: bool
    times: tuple[float, ...]


def of_run(run: Path, result: Result, ops: int, end_s: float) -> list[Group]:
    """Everything that was found. `ops`, `end_s`: how many operations the history has, and how long it is."""
    facts = lookup.of_run(run)
    slugs = _slugs([held.name for held in result.anomalies])
    told = {held.name: _explained(run, result, held, room) for held, room in _rooms(result)}
    every = [one for mine in told.values() for one in mine]
    margin = lanes.margin_ns(ops, end_s)
    wanted = [_around(one, margin) for one in every]
    lanes.read(run, wanted)
    strips = strip.of_witnesses(facts, [one.involved for one in every])
    around = {
        (one.anomaly.name, one.number): (held, mine)
        for one, held, mine in zip(every, wanted, strips, strict=True)
    }
    return [
        Group(
            slugs[held.name],
            held,
            _sentence(held.summary),
            explained.PROMISED[held.promised],
            tuple(_shown(slugs[held.name], one, *around[held.name, one.number]) for one in told[held.name]),
            held.name not in found.JOINED and bool(held.witnesses),
            _times(run, held, facts),
        )
        for held in result.anomalies
    ]


def _rooms(result: Result) -> list[tuple[AnomalyFound, int]]:
    """How many witnesses of each are shown: every one has a share, those that count the larger ones."""
    rooms = []
    left = SHOWN_MAX
    share = max(1, SHOWN_MAX // max(1, len(result.anomalies)))
    for held in sorted(result.anomalies, key=lambda held: not held.bad):
        room = min(OF_EACH if held.bad else OF_EACH_FINE, share, left)
        rooms.append((held, room))
        left -= min(room, held.count)
    return rooms


def _explained(run: Path, result: Result, held: AnomalyFound, room: int) -> list[Explanation]:
    many: list[Explanation] = []
    for number in range(1, room + 1):
        try:
            many.append(explain.explain(run, result, found.Asked(held.name, number)))
        except BadInput:  # there are no more to show
            break
    return many


def _around(one: Explanation, margin: int) -> Around:
    """What is wanted around a witness: less of what is around operations that were quick."""
    moments = _moments(one)
    longest = max((end - begin for begin, end in moments), default=0)
    return Around(
        lanes.windows_of(moments, min(margin, max(DURATIONS * longest, lanes.MARGINS_NS[0]))),
        frozenset(one.involved.ops),
    )


def _moments(one: Explanation) -> list[lanes.Moment]:
    return [moment for op in one.ops if (moment := op.moment) is not None]


def _sentence(text: str) -> str:
    said = plain(text).rstrip(".")
    return f"{said[:1].upper()}{said[1:]}."


def _slugs(names: Sequence[str]) -> dict[str, str]:
    """Ids for names: safe in an address, and no two alike."""
    slugs: dict[str, str] = {}
    for name in names:
        slug = SLUG.sub("-", name)[:40].strip("-") or "anomaly"
        while slug in slugs.values():
            slug += "-x"
        slugs[name] = slug
    return slugs


def _times(run: Path, held: AnomalyFound, facts: Lookup | None) -> tuple[float, ...]:
    """When the first operations of many witnesses ended, or the records that they name were sent.

    Seconds, ascending; of what names neither, nothing.
    """
    if facts is None or held.name in found.JOINED:
        return ()
    first: list[int] = []
    named: dict[str, tuple[Any, list[Any]]] = {}
    for witness in found.sampled(run, held, TIMES_MAX):
        ops = [op for op in named_ops(witness) if op >= 0]
        if ops:
            first.append(ops[0])
        elif pair := next(pairs(witness), None):
            named.setdefault(repr(pair[0]), (pair[0], []))[1].append(pair[1])
    known = facts.ops(first)
    times = [known[op].at_ns for op in first if op in known]
    for key, values in sorted(named.values(), key=lambda one: -len(one[1]))[:KEYS_MAX]:
        sent = {repr(row.value): row for row in facts.rows("sends", key, TIMES_MAX, values=values)}
        rows = [row for value in values if (row := sent.get(repr(value))) is not None]
        times += [row.invoke_ns if row.complete_ns is None else row.complete_ns for row in rows]
    return tuple(sorted(round(time / 1e9, 4) for time in times))


def _shown(slug: str, one: Explanation, around: Around, strips: Strips) -> Shown:
    moments = _moments(one)
    size = one.witness.get("scc-size")
    whole = size if type(size) is int and "cycle" not in one.witness else len(one.involved.ops)
    data = {
        "lanes": lanes.data(around, strips.touched) if moments else None,
        "names": {str(op.id): op.name for op in one.ops},
        "strips": list(strips.strips),
        "graph": _graph(one),
    }
    past = f"{one.before.label}, until {(one.before.end_ns or 0) / 1e9:.3f} s" if one.before else ""
    return Shown(
        slug=f"{slug}-{one.number}",
        number=one.number,
        text=_cut(plain(one.text)),
        chain=tuple(_cut(plain(said)) for said in one.chain),
        ops=tuple(_op(op, one) for op in one.ops),
        more_ops=max(0, whole - len(one.ops)),
        faults=tuple(_fault(span) for span in one.spans),
        before=past,
        logs=tuple((f"{line.time_ns / 1e9:.3f} s", line.node, _cut(line.text)) for line in one.logs),
        begin_s=min(begin for begin, _ in moments) / 1e9 if moments else None,
        end_s=max(end for _, end in moments) / 1e9 if moments else None,
        data=data,
        pages=tuple(
            (f"key {plain(key)}", f"{orders.NAME}/{page.name}")
            for key in one.involved.keys[:4]
            if (page := orders.page(one.run, key)).is_file()
        ),
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _op(op: Told, one: Explanation) -> OpText:
    lines = [*optext.micro_ops(op.value, one.involved.focus), *explained.extras(op.extra)]
    kind = op.fact.type if op.fact is not None else ""
    return OpText(_cut(plain(explained.op_line(op))), kind, tuple(_cut(plain(line)) for line in lines))


def _fault(span: Any) -> str:
    end = "the end" if span.end_ns is None else f"{span.end_ns / 1e9:.3f} s"
    doubt = " (no effect)" if span.took_effect is False else ""
    return f"{span.label}{doubt}, {span.begin_ns / 1e9:.3f} s to {end}"


def _graph(one: Explanation) -> dict[str, Any] | None:
    """The graph of a cycle: nodes [name, op, process, type], edges [from, to, type, key, why]."""
    if not one.chain:
        return None
    names = cycles.let(one.witness)
    known = {op.id: op.fact for op in one.ops}
    order = {op: number for number, op in enumerate(names)}
    cycle, steps = one.witness["cycle"], one.witness["steps"]
    nodes = [
        [name, op, fact.process if (fact := known.get(op)) else None, fact.type if fact else ""]
        for op, name in names.items()
    ]
    edges = [
        [
            order[cycle[number]], order[cycle[number + 1]], plain(step.get("type", "")),
            plain(step["key"]) if "key" in step else "",
        ]
        for number, step in enumerate(steps)
    ]  # fmt: skip
    return {"nodes": nodes, "edges": edges}
