"""Finds the start and end of each log, and which logs the final polls read to the end.

An `ok` final poll notes, for each assigned key, the consumer's position and the broker's log start and end offsets.
Under read_committed, the end is the last stable offset. Only the last note of each process and key counts. A key is
*complete* if the position of some process reached the highest end that any process noted, and no admin check of the log
(a final `debug-topic-partitions`) found records beyond that end. The admin check is necessary because an open
transaction may hold back the last stable offset, which is then not the end of the log.

Records below the log start were deleted. The deletion is legal if DeleteRecords ops of the key reach that far or the
settings allow the broker to delete them (checker.kernels.retention); otherwise it is unexplained. If the outcome of a
DeleteRecords request is unknown, a later check of the log start shows what the request deleted. Without a later check,
the request may have deleted everything that it was asked to delete.

Source: KIP-98 (last stable offset); KIP-107 (DeleteRecords, and -1 for the high watermark); KIP-207 (the reported end
of a log does not go back).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.tables.packing import Bools, Ints, begins, order
from checker.tables.schema import DELETIONS, FAIL, INFO, OK

_NO_DELETIONS: Final = DELETIONS.empty_table()
FOREVER: Final = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Ends:
    """The start and end of each log, as columns with one element per key.

    keys        the codes of the keys, ascending
    log_start   the highest log start that a check saw or that an `ok` DeleteRecords op requested; 0 if there is none
    end         the log end that final polls saw; -1 if unknown
    complete    whether final polls read the log to its end
    end_ns      invocation time of the last final poll that noted a log end; -1 if there was none, or if an admin
                check found records beyond `end`
    maybe_gone  DeleteRecords requests of unknown outcome may have deleted the records below this offset; 0 if there
                were no such requests, or if the log was checked after them
    emptied_ns  completion time of the last `ok` DeleteRecords op that deleted up to the end of the log (offset -1); -1
                if there was none, or if the log was checked afterwards
    """

    keys: Ints
    log_start: Ints
    end: Ints
    complete: Bools
    end_ns: Ints
    maybe_gone: Ints
    emptied_ns: Ints

    def at(self, codes: Ints, column: Ints, unknown: int) -> Ints:
        """Returns the element of `column` for each key code, or `unknown` for codes that are not in `keys`."""
        if len(self.keys) == 0:
            return np.full(len(codes), unknown, np.int64)
        place = np.minimum(np.searchsorted(self.keys, codes), len(self.keys) - 1)
        return np.where(self.keys[place] == codes, column[place], unknown)

    def of(self, codes: Ints) -> tuple[Ints, Ints, Bools]:
        """Returns (log start, end, complete) for each key code: 0, -1 and False for a code that is not in `keys`."""
        complete = self.at(codes, self.complete.astype(np.int64), 0)
        return self.at(codes, self.log_start, 0), self.at(codes, self.end, -1), complete.astype(np.bool_)


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


def last_rows(ends: pa.Table) -> dict[str, Ints]:
    """Returns the last row that a final poll recorded for each (key, process), as columns."""
    names = ("op", "process", "key", "position", "end", "final", "invoke_ns")
    columns = {name: _column(ends, name) for name in names}
    polled = np.flatnonzero((columns["position"] >= 0) & (columns["final"] > 0))
    columns = {name: column[polled] for name, column in columns.items()}
    by = order(columns["key"], columns["process"], columns["op"])
    columns = {name: column[by] for name, column in columns.items()}
    heads = begins(columns["key"], columns["process"])
    tails = np.append(np.flatnonzero(heads)[1:], len(by)) - 1 if len(by) else by
    return {name: column[tails] for name, column in columns.items()}


def ends_of(ends: pa.Table, deletions: pa.Table) -> Ends:
    """Computes the log starts and ends from the tables ENDS and DELETIONS."""
    requests = _Deletions.of(deletions)
    key = _column(ends, "key")
    keys = np.unique(np.concatenate([key, requests.key]))
    checked_op = np.full(len(keys), -1, np.int64)
    np.maximum.at(checked_op, np.searchsorted(keys, key), _column(ends, "op"))
    start = np.zeros(len(keys), np.int64)
    np.maximum.at(start, np.searchsorted(keys, key), _column(ends, "log_start"))
    request_place = np.searchsorted(keys, requests.key)
    certain = requests.type == OK
    np.maximum.at(start, request_place[certain], requests.before[certain])
    unseen = requests.op > checked_op[request_place]
    maybe_gone = np.zeros(len(keys), np.int64)
    uncertain = unseen & (requests.type == INFO)
    np.maximum.at(
        maybe_gone, request_place[uncertain], np.where(requests.before < 0, FOREVER, requests.before)[uncertain]
    )
    emptied_ns = np.full(len(keys), -1, np.int64)
    emptied = unseen & certain & (requests.before < 0)
    np.maximum.at(emptied_ns, request_place[emptied], requests.complete_ns[emptied])

    last = last_rows(ends)
    place = np.searchsorted(keys, last["key"])
    end = np.full(len(keys), -1, np.int64)
    np.maximum.at(end, place, last["end"])
    position = np.full(len(keys), -1, np.int64)
    np.maximum.at(position, place, last["position"])

    end_ns = np.full(len(keys), -1, np.int64)
    np.maximum.at(end_ns, place, last["invoke_ns"])

    by_admin = (_column(ends, "position") < 0) & (_column(ends, "final") > 0)
    beyond = np.full(len(keys), -1, np.int64)
    np.maximum.at(beyond, np.searchsorted(keys, key[by_admin]), _column(ends, "end")[by_admin])
    complete = (end >= 0) & (position >= end) & (beyond <= end)
    end_ns[beyond > end] = -1
    return Ends(keys, start, end, complete, end_ns, maybe_gone, emptied_ns)


@dataclass(frozen=True, slots=True)
class _Deletions:
    """The columns of the table DELETIONS, without the requests that failed."""

    op: Ints
    type: Ints
    key: Ints
    before: Ints
    complete_ns: Ints

    @classmethod
    def of(cls, deletions: pa.Table) -> _Deletions:
        rows = _column(deletions, "type") != FAIL
        return cls(*(_column(deletions, name)[rows] for name in cls.__slots__))


@dataclass(frozen=True, slots=True)
class MovedStart:
    """A log whose start was above 0 when it was checked.

    key         code of the key
    start       the highest log start that was seen
    seen_ns     when the first check that saw this start completed
    requested   the highest offset of a DeleteRecords request; 0 if there was none
    emptied_ns  when the last DeleteRecords request up to the end of the log completed; -1: there was no such request;
                FOREVER: such a request never completed
    """

    key: int
    start: int
    seen_ns: int
    requested: int
    emptied_ns: int


def moved_starts(ends: pa.Table, deletions: pa.Table) -> list[MovedStart]:
    """Returns the logs whose start is higher than the offset of every DeleteRecords request, ordered by key code.

    Requests up to the end of the log, which have no offset, do not count here.
    """
    moved = _column(ends, "log_start") > 0
    if not bool(moved.any()):
        return []
    key, start, seen_ns = (_column(ends, name)[moved] for name in ("key", "log_start", "complete_ns"))
    by = order(key, start)
    key, start, seen_ns = key[by], start[by], seen_ns[by]
    keys = key[begins(key)]
    place = np.searchsorted(keys, key)
    highest = np.zeros(len(keys), np.int64)
    highest[place] = start  # ascending: the highest is the last
    first_ns = np.full(len(keys), FOREVER, np.int64)
    top = start == highest[place]
    np.minimum.at(first_ns, place[top], seen_ns[top])

    requests = _Deletions.of(deletions)
    place = np.minimum(np.searchsorted(keys, requests.key), len(keys) - 1)
    rows = keys[place] == requests.key
    requested = np.zeros(len(keys), np.int64)
    np.maximum.at(requested, place[rows], requests.before[rows])
    rows &= requests.before < 0
    emptied_ns = np.full(len(keys), -1, np.int64)
    np.maximum.at(emptied_ns, place[rows], np.where(requests.complete_ns < 0, FOREVER, requests.complete_ns)[rows])
    columns = (keys, highest, first_ns, requested, emptied_ns)
    rows = np.flatnonzero(highest > requested)
    return [MovedStart(*cells) for cells in zip(*(column[rows].tolist() for column in columns), strict=True)]


@dataclass(frozen=True, slots=True)
class Rereads:
    """The logs that a process reread from beginning to end, as columns.

    key      the code of the log's key
    process  the process that reread the log
    since    the op in which the process sought to the beginning of the log
    """

    key: Ints
    process: Ints
    since: Ints


def rereads_of(ends: pa.Table, assigns: pa.Table) -> Rereads:
    """Returns the logs that a process reread: it sought to the beginning, and its last final poll reached the end."""
    last = last_rows(ends)
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


def not_caught_up(ends: pa.Table, meta: Mapping[str, Any]) -> str | None:
    """Returns the reason why the final polls are not complete, as a sentence. Returns None if they are complete.

    They are complete if every process that took part in the final phase has reached the ends of the logs of all its
    keys. Processes whose last op in that phase is `info` do not count, because new processes replaced them.
    `meta["final_processes"]` maps each process to the type of its last op in the final phase.
    """
    living = {int(process) for process, kind in meta["final_processes"].items() if kind != "info"}
    if not living:
        return "no final poll was completed, so records acknowledged late in the run may not have been read back"
    last = last_rows(ends)
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
