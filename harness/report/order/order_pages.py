"""Writes the order pages of a judged run: runs/ID/orders/index.html, and a page for each of the worst keys.

The size of the pages does not depend on the length of the history. There are pages for at most KEYS_MAX keys. Each page
shows at most 400 offsets (see SIZES) and has at most about BYTES_MAX bytes. Only the rows of the shown offsets are read
from the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import Result
from harness.report import order_paths
from harness.report.order import key_page, key_records, layout, marks
from harness.report.order.key_records import Records
from harness.report.order.marks import Mark, Suspect
from harness.report.text import broker_logs
from harness.report.text.involved_ops import key_of, named_ops
from harness.report.text.witness_text import witness_text
from harness.stored import find_runs
from harness.stored.operations_and_records import Lookup, OpFact, of_run

KEYS_MAX: Final = 20
# (offsets on each side of an anomaly, offsets in total), tried in turn until a page is small enough.
SIZES: Final = ((50, 400), (20, 400), (8, 300), (3, 120), (2, 40), (0, 8))
BYTES_MAX: Final = 2 << 20


def draw(run: Path, result: Result) -> list[Path]:
    """Writes the pages and returns their paths, the index first. Pages that an earlier check wrote are removed.

    Returns an empty list if there are no anomalies, or if the run has no tables.
    """
    for old in (*order_paths.pages(run), order_paths.index(run)):
        old.unlink(missing_ok=True)
    facts = of_run(run)
    found = marks.suspects(run, result) if facts is not None else []
    if facts is None or not found:
        return []
    order_paths.folder(run).mkdir(exist_ok=True)
    chosen = found[:KEYS_MAX]
    ops = facts.ops(op for one in chosen for mark in _first_marks(one.marks) for op in named_ops(mark.witness))
    rows = []
    for suspect in chosen:
        text = _page(run, facts, suspect, ops)
        if text is not None:
            order_paths.page(run, suspect.key).write_text(text, encoding="utf-8")
            rows.append((order_paths.file_name(suspect.key), suspect))
    if not rows:
        return []
    order_paths.index(run).write_text(
        key_page.render_index(run.resolve().name, result.valid, rows, len(found) - len(rows)), encoding="utf-8"
    )
    return [order_paths.index(run), *(order_paths.folder(run) / file for file, _ in rows)]


def _first_marks(found: Sequence[Mark]) -> list[Mark]:
    """Returns the marks whose witnesses are described on the page: up to the same number for each anomaly."""
    by_name: dict[str, list[Mark]] = {}
    for mark in found:
        by_name.setdefault(mark.anomaly, []).append(mark)
    share = max(1, key_page.WITNESSES_MAX // max(1, len(by_name)))
    return [mark for mine in by_name.values() for mark in mine[:share]]


def _page(run: Path, facts: Lookup, suspect: Suspect, ops: dict[int, OpFact]) -> str | None:
    """Returns the page of a key; None if no witness leads to an offset.

    The page shows as many offsets around the anomalies as its maximum size allows.
    """
    places = _places(facts, suspect)
    wanted = [offset for mark in _first_marks(suspect.marks) for offset in places.get(mark.name, ())]
    if not wanted:
        return None
    text = ""
    for margin, rows_max in SIZES:
        windows = layout.windows_of(wanted, margin, rows_max)
        read = key_records.read(facts, suspect.key, windows)
        text = key_page.render(
            _laid_out(run, suspect, windows, places, Records(read.sends_, read.polls_, facts.spans, ops))
        )
        if len(text.encode()) <= BYTES_MAX:
            return text
    return text


def _laid_out(
    run: Path,
    suspect: Suspect,
    windows: Sequence[key_records.Window],
    places: dict[str, list[int]],
    facts: Records,
) -> key_page.Page:
    def inside(mark: Mark) -> list[int]:
        return [at for at in places.get(mark.name, ()) if any(low <= at <= high for low, high in windows)]

    shown = [mark for mark in suspect.marks if inside(mark)]
    marked = frozenset(spot.op for mark in shown for spot in mark.spots if spot.op is not None)
    sections = [layout.section(facts, window, marked) for window in windows]
    texts = {
        mark.name: witness_text(mark.anomaly, _narrowed(mark.witness, suspect.key), facts)
        for mark in _first_marks(shown)
    }
    offsets = {line.offset for one in sections for line in one.lines if isinstance(line, layout.Line)}
    where = {mark.name: at for mark in shown for at in inside(mark)[:1] if at in offsets}
    name = run.resolve().name
    return key_page.Page(name, _about(run, suspect.key), suspect, sections, shown, texts, where, facts.spans, facts.cut)


def _narrowed(witness: Mapping[str, Any], key: Any) -> Mapping[str, Any]:
    """Returns the part of a witness that is about one key. Only a witness of `unseen` names several keys."""
    if not isinstance(witness.get("unseen"), dict):
        return witness
    mine = {
        name: {text: per_key for text, per_key in (witness.get(name) or {}).items() if key_of(text) == key}
        for name in ("unseen", "messages")
    }
    return {**witness, **mine}


def _about(run: Path, key: Any) -> str:
    """Returns the name of the key's partition as text for the heading; empty if the name is not known."""
    plan = find_runs.plan_of(run)
    per_topic = plan.get("partitions_per_topic")
    name = broker_logs.partition(str(plan.get("run") or ""), key, per_topic) if type(per_topic) is int else None
    return f", partition {name}" if name else ""


def _places(facts: Lookup, suspect: Suspect) -> dict[str, list[int]]:
    """Returns Mark.name -> the offsets that the mark refers to."""
    spots = [spot for mark in suspect.marks for spot in mark.spots]
    values = {repr(spot.value): spot.value for spot in spots if spot.value is not None and spot.offset is None}
    by_value = key_records.offsets_of(facts, suspect.key, values.values())
    ends = key_records.polled_by(
        facts,
        suspect.key,
        (spot.op for spot in spots if spot.kind in ("ended", "began") and spot.op is not None),
    )
    found: dict[str, list[int]] = {}
    for mark in suspect.marks:
        at: list[int] = []
        for spot in mark.spots:
            if spot.offset is not None:
                at.append(spot.offset)
            elif spot.kind in ("ended", "began"):
                mine = ends.get(spot.op or -1, [])
                at += mine[-1:] if spot.kind == "ended" else mine[:1]
            else:
                at += sorted(by_value.get(repr(spot.value), ()))
        found[mark.name] = list(dict.fromkeys(at))
    return found
