"""From the files of a pipeline's run to what happened: each input record beside its outputs, one by one.

What the transform makes of a record is what the instances ask as well (harness.model.transforms): it is the
pipeline's own definition, and no part of a check.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.model.transforms import outputs
from tests.oracle.pipeline.case import ONCE, PipelineCase
from tests.oracle.pipeline.run import COMMITTED, READ, SENT, Files, Row, place

Thing = tuple[int, int]  # id of an input record, number of its output; 0 where outputs are not numbered


@dataclass(slots=True)
class KnownOfPipeline:
    """What the files show.

    shown  anomaly -> what of: it happened, whatever else did
    maybe  anomaly -> what of: it may have happened, and so may something else that is shown
    open   why the files do not show everything
    """

    shown: dict[str, set[Thing]] = field(default_factory=lambda: defaultdict(set))
    maybe: dict[str, set[Thing]] = field(default_factory=lambda: defaultdict(set))
    open: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Copy:
    """One record of the input; nth: how many of its key there are up to it, itself among them."""

    offset: int
    key: int
    nth: int
    done: bool
    place: str


def known(case: PipelineCase, content: Files) -> KnownOfPipeline:
    found = KnownOfPipeline()
    _openings(content, found)
    inputs, rows = _inputs(content), _outputs(content)
    gone = _writers(content, inputs, found)
    for id_, copies in inputs.items():
        _one_record(case, id_, copies, rows.get(id_, []), gone, found)
    for id_ in rows.keys() - inputs.keys():
        for row in rows[id_]:
            found.shown["phantom-output"].add((id_, _number(case, row)))
    _order(case, inputs, rows, found)
    if case.mode in ONCE:
        _aborted(case, content, inputs, rows, found)
    if not found.open and any(not copy.done for copies in inputs.values() for copy in copies):
        found.open.append("not all of the input is done")
    return found


def _openings(content: Files, found: KnownOfPipeline) -> None:
    for name in (READ, SENT, COMMITTED):
        if name not in content:
            found.open.append(f"{name} is missing")
    reading = content.get(READ, [])
    if reading and not (reading[-1].get("end") and reading[-1]["caught_up"]):
        found.open.append("the topics were not read to their end")
    if any(row.get("partition") == "zero" for row in reading):
        found.open.append("a line cannot be used")


def _inputs(content: Files) -> dict[int, list[Copy]]:
    """id -> its records, in the order of the log."""
    committed = content[COMMITTED][0]["offsets"] if COMMITTED in content else {}
    rows = [row for row in content.get(READ, ()) if row.get("side") == "input" and row["partition"] != "zero"]
    found: dict[int, list[Copy]] = defaultdict(list)
    of_key: Counter[tuple[str, int]] = Counter()
    for row in sorted(rows, key=lambda row: int(row["offset"])):
        of_key[place(row), row["key"]] += 1
        done = row["offset"] < committed.get(place(row), 0)
        copy = Copy(row["offset"], row["key"], of_key[place(row), row["key"]], done, place(row))
        found[row["id"]].append(copy)
    return found


def _outputs(content: Files) -> dict[int, list[Row]]:
    """id of the input record -> what a reader of committed records was shown, in the order of each log."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(content.get(READ, ()), key=lambda row: int(row.get("offset", 0))):
        if row.get("side") == "output" and row["committed"]:
            found[row["id"]].append(row)
    return found


def _number(case: PipelineCase, row: Mapping[str, Any]) -> int:
    return 0 if case.transform == "aggregate" else int(row["n"])


def _writers(content: Files, inputs: Mapping[int, list[Copy]], found: KnownOfPipeline) -> Counter[tuple[str, int]]:
    """What the writers sent beside what was read. By partition and key: how many acknowledged records are gone."""
    gone: Counter[tuple[str, int]] = Counter()
    if SENT not in content:
        return gone
    sent = {line["id"]: line for line in content[SENT]}
    for id_, line in sent.items():
        if line["outcome"] == "ok" and id_ not in inputs:
            found.shown["lost-input"].add((id_, 0))
            gone[place(line), line["key"]] += 1
    for id_ in inputs:
        if id_ not in sent or sent[id_]["outcome"] == "fail":
            found.shown["phantom-input"].add((id_, 0))
    return gone


def _one_record(
    case: PipelineCase,
    id_: int,
    copies: list[Copy],
    rows: list[Row],
    gone: Counter[tuple[str, int]],
    found: KnownOfPipeline,
) -> None:
    """Each copy of a record has each of its outputs, once; where its offset is not committed, none yet."""
    done = sum(copy.done for copy in copies)
    key = copies[0].key
    wanted = {0} if case.transform == "aggregate" else {n for n, _, _ in outputs(case.transform, id_, key)}
    made = Counter(_number(case, row) for row in rows)
    for number in wanted | made.keys():
        thing, count = (id_, number), made[number]
        if number in wanted and count < done:
            found.shown["missing"].add(thing)
        if count > len(copies):
            found.shown["duplicate"].add(thing)
        if done < len(copies) and count > done:
            # Of a record with a committed copy, that one's output may as well stand there twice.
            sure = done == 0
            (found.shown if sure else found.maybe)["uncommitted"].add(thing)
            if not sure and count <= len(copies):
                found.shown["duplicate or uncommitted"].add(thing)
        if number not in wanted:
            found.shown["wrong"].add(thing)
    if any(row["key"] != key for row in rows):
        for row in rows:
            if row["key"] != key:
                found.shown["wrong"].add((id_, _number(case, row)))
    if case.transform == "aggregate":
        _counts(id_, copies, rows, gone[copies[0].place, key], found)


def _counts(id_: int, copies: list[Copy], rows: list[Row], gone: int, found: KnownOfPipeline) -> None:
    """The running count of a key, beside how many records of it there are. What is gone was counted as well."""
    counts = [row["n"] for row in rows]
    for count in counts:
        if not any(copy.nth <= count <= copy.nth + gone for copy in copies):
            found.shown["wrong"].add((id_, 0))
    if len(set(counts)) < len(counts) <= sum(copy.done for copy in copies):
        found.shown["wrong or duplicate"].add((id_, 0))


def _order(
    case: PipelineCase, inputs: Mapping[int, list[Copy]], rows: Mapping[int, list[Row]], found: KnownOfPipeline
) -> None:
    """The outputs of a key in one partition, by where each stands first: in the order of the input.

    Of a record with copies, the output may be any copy's. What is not an output of the record has no place.
    """
    of_key: dict[tuple[str, str, int], list[tuple[int, int, Row]]] = defaultdict(list)
    for id_, each in rows.items():
        if id_ in inputs:
            for row in each:
                of_key[inputs[id_][0].place, place(row), row["key"]].append((row["offset"], id_, row))
    for listed in of_key.values():
        first: set[Thing] = set()
        passed: Thing = (-1, -1)  # where in the input one of those before stands, at the least
        for _, id_, row in sorted(listed, key=lambda item: item[0]):
            thing = (id_, _number(case, row))
            if thing in first or thing in found.shown["wrong"]:
                continue
            first.add(thing)
            offsets = [copy.offset for copy in inputs[id_]]
            if (max(offsets), thing[1]) < passed:
                found.shown["reordered"].add(thing)
            passed = max(passed, (min(offsets), thing[1]))


def _aborted(
    case: PipelineCase,
    content: Files,
    inputs: Mapping[int, list[Copy]],
    rows: Mapping[int, list[Row]],
    found: KnownOfPipeline,
) -> None:
    """Outputs that are shown, though their instance aborted whatever it produced of their record."""
    endings: dict[tuple[int, int], set[str]] = defaultdict(set)  # (incarnation, id) -> how its transactions ended
    for name, lines in content.items():
        if not name.startswith("events/"):
            continue
        for at, line in enumerate(lines):
            if line["event"] != "produced":
                continue
            ending = next((each["event"] for each in lines[at:] if each["event"] in ("committed", "aborted")), "")
            for id_, copies in inputs.items():
                if any(_covers(line, copy) for copy in copies):
                    endings[line["incarnation"], id_].add(ending)
    for id_, each in rows.items():
        for row in each:
            if id_ in inputs and endings[row["incarnation"], id_] == {"aborted"}:
                thing = (id_, _number(case, row))
                count = sum(_number(case, other) == thing[1] for other in each)
                (found.maybe if count > 1 else found.shown)["aborted"].add(thing)


def _covers(line: Row, copy: Copy) -> bool:
    return place(line) == copy.place and bool(line["first"] <= copy.offset <= line["last"])
