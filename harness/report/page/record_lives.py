"""The lives of records in share groups (KIP-932): when each was delivered to which member, and how each delivery ended.

The records of witnesses come first, then those with the most deliveries. Each record is drawn as a lane: a bar for each
delivery, from the end of the poll that returned the record to the end of the delivery. The input is the run's tables of
deliveries and acknowledgements; the output is plain data for the template of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from checker.tables.schema import ACK_KINDS, INVALID_STATE, OK, RENEW
from harness.model.check_result import Result
from harness.model.values_as_text import plain
from harness.stored.operations_and_records import CODE_BASE

LIVES_MAX: Final = 24
OF_WITNESSES_MAX: Final = 12
PARTS_MAX: Final = 40  # deliveries per record
KIND_OF_ACK: Final = {number: name for name, number in ACK_KINDS.items()}
PAST: Final = {"accept": "accepted", "release": "released", "reject": "rejected"}
RECORD: Final = ("group", "key", "offset")
FROM_TABLE: Final = {
    "deliveries": (*RECORD, "member", "count", "renewed", "complete_ns"),
    "acknowledgements": (*RECORD, "member", "kind", "type", "error", "by_poll", "invoke_ns", "complete_ns"),
}

Rows = Sequence[Mapping[str, Any]]
Record = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Part:
    """One delivery of a record, as a bar.

    x, width  position and width, in per mille of the lane
    ended     how it ended: accepted, released, rejected, refused, unknown, or expired (no acknowledgement)
    text      the delivery in words
    """

    x: float
    width: float
    ended: str
    text: str


@dataclass(frozen=True, slots=True)
class Life:
    """The life of one record: its name, whether a witness names it, and its deliveries."""

    name: str
    witness: bool
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Lives:
    """The lives on a page, with the interval of time that their lanes show, in seconds."""

    lives: tuple[Life, ...] = ()
    begin_s: float = 0.0
    end_s: float = 0.0


def of_run(run: Path, plan: Mapping[str, Any], result: Result | None) -> Lives:
    """Returns the lives to show; none if the run has no share groups or its tables cannot be read."""
    tables = run / "tables"
    deliveries, acknowledgements = _table(tables, "deliveries"), _table(tables, "acknowledgements")
    if deliveries is None or acknowledgements is None:
        return Lives()
    try:
        texts = _texts(tables)
        named = _of_witnesses(result, texts)
        chosen = _chosen(deliveries, named)
        given, acks = _rows(deliveries, "deliveries", chosen), _rows(acknowledgements, "acknowledgements", chosen)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return Lives()
    lock_s = float(plan.get("share_lock_s") or 0.0)
    spans = {record: _spans(given[record], acks.get(record, []), lock_s, texts) for record in chosen if record in given}
    times = [time for parts in spans.values() for begin, end, *_ in parts for time in (begin, end)]
    if not times:
        return Lives()
    begin_s, end_s = min(times), max(times)
    scale = 1000 / max(end_s - begin_s, 1e-9)
    lives = [
        Life(
            f"{plain(texts.get(group, group))}, key {plain(texts.get(key, key))}, offset {offset}",
            (group, key, offset) in named,
            tuple(
                Part(round((begin - begin_s) * scale, 2), round(max((end - begin) * scale, 2.0), 2), ended, text)
                for begin, end, ended, text in parts[:PARTS_MAX]
            ),
        )
        for (group, key, offset), parts in spans.items()
    ]
    return Lives(tuple(lives), begin_s, end_s)


def _table(tables: Path, name: str) -> ds.Dataset | None:
    files = sorted(map(str, (tables / name).glob("*/*.parquet")))
    return ds.dataset(files, format="parquet") if files else None


def _texts(tables: Path) -> dict[int, Any]:
    """Returns code in the tables -> original, for names, and for keys and values that are not plain integers."""
    originals = orjson.loads((tables / "_dictionary.json").read_bytes())
    return {CODE_BASE + number: orjson.loads(text) for number, text in enumerate(originals)}


def _of_witnesses(result: Result | None, texts: Mapping[int, Any]) -> list[Record]:
    """Returns the records that witnesses name."""
    codes = {str(text): code for code, text in texts.items()}
    found: dict[Record, None] = {}
    for anomaly in result.anomalies if result is not None else ():
        for witness in anomaly.witnesses:
            values = [witness.get(name) for name in RECORD]
            group, key, offset = (codes.get(value) if isinstance(value, str) else value for value in values)
            if all(type(value) is int for value in (group, key, offset)):
                found[group, key, offset] = None  # type: ignore[index]
    return list(found)[:OF_WITNESSES_MAX]


def _chosen(deliveries: ds.Dataset, named: Sequence[Record]) -> list[Record]:
    """Returns the records to show: those of witnesses, then those with the most deliveries."""
    counts = deliveries.to_table(columns=list(RECORD)).group_by(list(RECORD)).aggregate([([], "count_all")])
    most = counts.sort_by([("count_all", "descending"), *((name, "ascending") for name in RECORD)])
    rows = most.slice(0, LIVES_MAX).to_pylist()
    others = [(row["group"], row["key"], row["offset"]) for row in rows]
    return list(dict.fromkeys([*named, *others]))[:LIVES_MAX]


def _rows(table: ds.Dataset, name: str, chosen: Iterable[Record]) -> dict[Record, list[dict[str, Any]]]:
    """Returns record -> its rows in a table, in order of time."""
    wanted = set(chosen)
    offsets = pc.field("offset").isin([offset for _, _, offset in wanted])
    found: dict[Record, list[dict[str, Any]]] = {}
    for row in table.to_table(columns=list(FROM_TABLE[name]), filter=offsets).to_pylist():
        record = (row["group"], row["key"], row["offset"])
        if record in wanted:
            found.setdefault(record, []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row["complete_ns"])
    return found


def _spans(given: Rows, acks: Rows, lock_s: float, texts: Mapping[int, Any]) -> list[tuple[float, float, str, str]]:
    """Returns (begin in s, end in s, how it ended, text) of each delivery of one record, in order of time.

    given  the deliveries of the record
    acks   the acknowledgements of the record
    """
    fresh = [row for row in given if not row["renewed"]]
    found = []
    for at, row in enumerate(fresh):
        begin_ns, member = row["complete_ns"], row["member"]
        own = [later["complete_ns"] for later in fresh[at + 1 :] if later["member"] == member]
        until_ns = min(own, default=1 << 62)
        mine = [ack for ack in acks if ack["member"] == member and begin_ns <= ack["complete_ns"] <= until_ns]
        renewals = [ack for ack in mine if ack["kind"] == RENEW and ack["type"] == OK]
        last = next((ack for ack in mine if ack["kind"] != RENEW), None)
        renewed = f", lock renewed {len(renewals)} times" if len(renewals) > 1 else ", lock renewed" if renewals else ""
        head = f"{begin_ns / 1e9:.3f} s: delivery {row['count']} to member {plain(texts.get(member, member))}{renewed}"
        if last is not None:
            ended = _ended(last)
            end_s = max(last["complete_ns"], begin_ns) / 1e9
            kind = KIND_OF_ACK.get(last["kind"], "acknowledge")
            text = f"{head}; {ended} at {end_s:.3f} s" if ended in PAST.values() else f"{head}; {kind} {ended}"
            found.append((begin_ns / 1e9, end_s, ended, text))
            continue
        locked_s = max([begin_ns, *(ack["complete_ns"] for ack in renewals)]) / 1e9 + lock_s
        following = fresh[at + 1]["complete_ns"] / 1e9 if at + 1 < len(fresh) else locked_s
        found.append((begin_ns / 1e9, min(locked_s, following), "expired", f"{head}; not acknowledged"))
    return found


def _ended(ack: Mapping[str, Any]) -> str:
    """Returns how an acknowledgement ended a delivery."""
    if ack["type"] == OK:
        return PAST.get(KIND_OF_ACK.get(ack["kind"], ""), "unknown")
    return "refused" if ack["error"] == INVALID_STATE else "unknown"
