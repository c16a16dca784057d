"""How far the final polls got: which keys were read to the end of their log, and where their logs begin.

An `ok` final poll records, for each assigned key, the consumer's position and the broker's log start and end
(the last stable offset under read_committed). A key is *complete* when the last such record of some process
stands at the highest end that any process last saw, and no later admin look at the log (a final
`debug-topic-partitions`) saw records beyond it: a last stable offset pinned by an open transaction is not the
end. What is below the log start was deleted: legally where DeleteRecords ops reach that far or settings let
the broker delete, and by nobody knows whom elsewhere (`unexplained`). Source: KIP-98 (last stable offset);
KIP-107 (DeleteRecords); Kafka's broker and topic configurations log.cleanup.policy, (log.)retention.*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.tables.packing import Bools, Ints, begins, order
from checker.tables.schema import DELETIONS, FAIL, OK
from harness.model.check_options import Settings

# What makes a broker delete old records, unless it is -1. The defaults (a week, no limit of size) delete
# nothing within a run; segment settings say when a file is closed, not that it may go.
RETENTION: Final = frozenset(
    [
        "retention.ms",
        "retention.bytes",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
        "log.retention.bytes",
    ]
)
UNLIMITED: Final = "-1"
_NO_DELETIONS: Final = DELETIONS.empty_table()


@dataclass(frozen=True, slots=True)
class Ends:
    """By key code, ascending: where the log begins and ends (-1: not known), whether it was read to there."""

    keys: Ints
    log_start: Ints
    end: Ints
    complete: Bools

    def of(self, codes: Ints) -> tuple[Ints, Ints, Bools]:
        """(log start, end, complete) of each key code; 0, -1 and False where nothing is known."""
        if len(self.keys) == 0:
            return (
                np.zeros(len(codes), np.int64),
                np.full(len(codes), -1, np.int64),
                np.zeros(len(codes), np.bool_),
            )
        place = np.minimum(np.searchsorted(self.keys, codes), len(self.keys) - 1)
        known = self.keys[place] == codes
        return (
            np.where(known, self.log_start[place], 0),
            np.where(known, self.end[place], -1),
            known & self.complete[place],
        )


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


def _last_rows(ends: pa.Table) -> dict[str, Ints]:
    """The last record of each (key, process) of a final poll."""
    columns = {name: _column(ends, name) for name in ("op", "process", "key", "position", "end", "final")}
    polled = np.flatnonzero((columns["position"] >= 0) & (columns["final"] > 0))
    columns = {name: column[polled] for name, column in columns.items()}
    by = order(columns["key"], columns["process"], columns["op"])
    columns = {name: column[by] for name, column in columns.items()}
    heads = begins(columns["key"], columns["process"])
    tails = np.append(np.flatnonzero(heads)[1:], len(by)) - 1 if len(by) else by
    return {name: column[tails] for name, column in columns.items()}


def ends_of(ends: pa.Table, deletions: pa.Table) -> Ends:
    """From the tables ENDS and DELETIONS."""
    deleted = _column(deletions, "type") != FAIL
    gone_key, gone_before = _column(deletions, "key")[deleted], _column(deletions, "before")[deleted]
    key, log_start = _column(ends, "key"), _column(ends, "log_start")
    keys = np.unique(np.concatenate([key, gone_key]))
    start = np.zeros(len(keys), np.int64)
    np.maximum.at(start, np.searchsorted(keys, key), log_start)
    np.maximum.at(start, np.searchsorted(keys, gone_key), gone_before)

    last = _last_rows(ends)
    place = np.searchsorted(keys, last["key"])
    end = np.full(len(keys), -1, np.int64)
    np.maximum.at(end, place, last["end"])
    position = np.full(len(keys), -1, np.int64)
    np.maximum.at(position, place, last["position"])

    looked = (_column(ends, "position") < 0) & (_column(ends, "final") > 0)
    beyond = np.full(len(keys), -1, np.int64)
    np.maximum.at(beyond, np.searchsorted(keys, key[looked]), _column(ends, "end")[looked])
    complete = (end >= 0) & (position >= end) & (beyond <= end)
    return Ends(keys, start, end, complete)


@dataclass(frozen=True, slots=True)
class Rereads:
    """Who read which log once more from its beginning to its end: key code, process, from which op on."""

    key: Ints
    process: Ints
    since: Ints


def rereads_of(ends: pa.Table, assigns: pa.Table) -> Rereads:
    """Processes that sought to the beginning, and whose last final poll stands at the end of the log."""
    last = _last_rows(ends)
    everywhere = ends_of(ends, _NO_DELETIONS)
    _, end, complete = everywhere.of(last["key"])
    reached_end = complete & (last["position"] >= end)
    sought = (_column(assigns, "type") == OK) & (_column(assigns, "seek") > 0)
    key, process, op = (_column(assigns, name)[sought] for name in ("key", "process", "op"))
    by = order(key, process, op)
    key, process, op = key[by], process[by], op[by]
    tails = np.append(begins(key, process)[1:], True) if len(key) else np.zeros(0, np.bool_)
    since = {(k, p): o for k, p, o in zip(*(c[tails].tolist() for c in (key, process, op)), strict=True)}
    rows = [
        (k, p, since[k, p])
        for k, p, o in zip(*(last[name][reached_end].tolist() for name in ("key", "process", "op")), strict=True)
        if since.get((k, p), o) < o
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Rereads(columns[:, 0], columns[:, 1], columns[:, 2])


def deletion_configured(settings: Settings) -> bool:
    """Whether the broker may delete records by itself: by age, size or compaction."""
    if "compact" in (settings.cleanup_policy or ""):
        return True
    return any(name in RETENTION and str(value) != UNLIMITED for name, value in settings.broker.items())


def unexplained(ends: pa.Table, deletions: pa.Table, settings: Settings) -> list[tuple[int, int]]:
    """(key code, log start), ascending, where neither DeleteRecords ops nor settings explain the start."""
    if deletion_configured(settings):
        return []
    deleted: dict[int, float] = {}
    for row in deletions.filter(pa.array(_column(deletions, "type") != FAIL)).to_pylist():
        # A negative offset stands for the end of the log as it was then (KIP-107).
        before = row["before"] if row["before"] >= 0 else float("inf")
        deleted[row["key"]] = max(deleted.get(row["key"], 0), before)
    starts: dict[int, int] = {}
    for key, start in zip(_column(ends, "key").tolist(), _column(ends, "log_start").tolist(), strict=True):
        starts[key] = max(starts.get(key, 0), start)
    return sorted((key, start) for key, start in starts.items() if start > deleted.get(key, 0))


def not_caught_up(ends: pa.Table, meta: Mapping[str, Any]) -> str | None:
    """Why the final polls do not count as complete; None when they do.

    Every process that took part in the final phase and was not retired there must stand at the end of each
    of its keys. `meta["final_processes"]`: process -> type of its last final op.
    """
    living = {int(process) for process, kind in meta["final_processes"].items() if kind != "info"}
    if not living:
        return "no final poll was completed, so what was acknowledged at the end may not have been read back"
    last = _last_rows(ends)
    top: dict[int, int] = {}
    for key, end in zip(last["key"].tolist(), last["end"].tolist(), strict=True):
        top[key] = max(top.get(key, -1), end)
    rows = zip(last["process"].tolist(), last["key"].tolist(), last["position"].tolist(), strict=True)
    polled, behind = set(), set()
    for process, key, position in rows:
        polled.add(process)
        if process in living and position < top[key]:
            behind.add(process)
    behind |= living - polled
    if behind:
        listed = ", ".join(map(str, sorted(behind)[:8]))
        return (
            f"the final polls of {len(behind)} of {len(living)} clients (processes {listed}) "
            "did not reach the end of every log"
        )
    return None
