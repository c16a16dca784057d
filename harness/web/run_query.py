"""Applies the query of the list of runs: search words, filters, order, and number of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from harness.model.check_result import SEVERITY
from harness.web.run_list import Row

PER_PAGE: Final = 200
WORD_BYTES: Final = 300
WORDS: Final = re.compile(r'"([^"]+)"|(\S+)')
FIELDS: Final = ("q", "verdict", "workload", "fault", "anomaly")


def _severity(row: Row) -> tuple[int, str]:
    return SEVERITY.get(row.verdict, -1), row.verdict


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list of runs.

    down  whether the first click on the title sorts in descending order
    """

    title: str
    key: Callable[[Row], Any]
    down: bool = False


COLUMNS: Final[Mapping[str, Column]] = {
    "verdict": Column("verdict", _severity, True),
    "run": Column("run", lambda row: (row.started or row.id, row.id), True),
    "workload": Column("workload", lambda row: row.workload),
    "faults": Column("faults", lambda row: row.faults),
    "settings": Column("settings", lambda row: row.settings),
    "versions": Column("versions", lambda row: row.versions),
    "seconds": Column("length", lambda row: row.seconds or 0.0, True),
    "anomalies": Column("anomalies", lambda row: row.found, True),
}
FIRST: Final = "run"


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the list of runs. An empty field matches every run.

    q         search words, or phrases in quotes; a run must contain all of them
    verdict   the run's verdict
    workload  the run's workload
    fault     a fault that the run must have
    anomaly   an anomaly that the run must have
    sort      name of the column by which runs are sorted
    down      whether the order is descending
    page      number of the page, from 1
    """

    q: str = ""
    verdict: str = ""
    workload: str = ""
    fault: str = ""
    anomaly: str = ""
    sort: str = FIRST
    down: bool = True
    page: int = 1

    def link(self, **changes: Any) -> str:
        """Returns the query string for this query with `changes` to its fields."""
        changed = replace(self, **changes)
        fields = {name: getattr(changed, name) for name in FIELDS if getattr(changed, name)}
        if (changed.sort, changed.down) != (FIRST, True):
            fields |= {"sort": changed.sort, "down": str(int(changed.down))}
        if changed.page > 1:
            fields["page"] = str(changed.page)
        return f"?{urlencode(fields, errors='backslashreplace')}" if fields else "?"


@dataclass(frozen=True, slots=True)
class Selected:
    """One page of the list.

    rows      rows on this page
    matching  number of matching rows on all pages
    total     number of rows before filtering
    page      number of this page
    pages     number of pages
    """

    rows: Sequence[Row]
    matching: int
    total: int
    page: int
    pages: int


def of(given: Mapping[str, Sequence[str]]) -> Query:
    """Returns the query that a query string stands for. Invalid values are ignored."""
    first = {name: values[0][:WORD_BYTES] for name, values in given.items() if values}
    sort = first.get("sort", FIRST)
    if sort not in COLUMNS:
        sort = FIRST
    down = first["down"] == "1" if "down" in first else COLUMNS[sort].down
    page = first.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    q, verdict, workload, fault, anomaly = (first.get(name, "").strip() for name in FIELDS)
    return Query(q, verdict, workload, fault, anomaly, sort, down, max(1, number))


def select(rows: Sequence[Row], query: Query, per_page: int = PER_PAGE) -> Selected:
    """Returns one page of the runs that match a query, sorted as it says."""
    words = [phrase or word for phrase, word in WORDS.findall(query.q.casefold())]
    found = [row for row in rows if _matches(row, query, words)]
    found.sort(key=COLUMNS[query.sort].key, reverse=query.down)
    pages = max(1, -(-len(found) // per_page))
    page = min(query.page, pages)
    return Selected(found[(page - 1) * per_page : page * per_page], len(found), len(rows), page, pages)


def _matches(row: Row, query: Query, words: Sequence[str]) -> bool:
    if query.verdict and row.verdict != query.verdict:
        return False
    if query.workload and row.workload != query.workload:
        return False
    if query.fault and query.fault not in row.faults:
        return False
    if query.anomaly and query.anomaly not in {name for name, _ in row.anomalies}:
        return False
    return not words or all(word in _text(row) for word in words)


def _text(row: Row) -> str:
    names = (name for name, _ in row.anomalies)
    parts = (row.id, row.verdict, row.workload, *row.faults, *row.settings, row.versions, *names)
    return " ".join(parts).casefold()


def choices(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Returns, for each filter, the values that occur in `rows`."""
    return {
        "verdict": sorted({row.verdict for row in rows}),
        "workload": sorted({row.workload for row in rows if row.workload}),
        "fault": sorted({name for row in rows for name in row.faults}),
        "anomaly": sorted({name for row in rows for name, _ in row.anomalies}),
    }


def before(rows: Sequence[Row], row: Row) -> Row | None:
    """Returns the latest run before `row` that has the same workload and faults; None if there is none.

    rows  all runs, the newest first
    """
    older = rows[next((at + 1 for at, candidate in enumerate(rows) if candidate.id == row.id), len(rows)) :]
    same = (run for run in older if (run.workload, run.faults) == (row.workload, row.faults))
    return next(same, None)
