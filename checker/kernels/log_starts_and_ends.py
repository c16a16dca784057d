"""How far the final polls got: which keys were read to the end of their log, and where their logs begin.

An `ok` final poll records, for each assigned key, the consumer's position and the broker's log start and end
(the last stable offset under read_committed). A key is *complete* when the last such record of some process
stands at the highest end that any process last saw, and no later admin look at the log (a final
`debug-topic-partitions`) saw records beyond it: a last stable offset pinned by an open transaction is not the
end. What is below the log start was deleted: legally where DeleteRecords ops of the key reach that far or
settings let the broker delete (checker.kernels.retention), and by nobody knows whom elsewhere. A DeleteRecords
request of unknown outcome did what the log start shows when it was looked at later, and may have done all that
it asked where nobody looked. Source: KIP-98 (last stable offset); KIP-107 (DeleteRecords, and -1 for the high
watermark); KIP-207 (an end that is told does not go back).
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
    """By key code, ascending: where the log begins and ends (-1: not known), whether it was read to there.

    log_start   the highest that was seen, or that a DeleteRecords op set
    end_ns      when the last look at the end was asked for; -1 where there was none, or where another look
                saw records beyond it
    maybe_gone  offset up to which requests of unknown outcome, after which nobody looked, may have deleted
    emptied_ns  when the last request to delete up to the end of the log (-1) was done, after which nobody
                looked at the log start; -1 for none
    """

    keys: Ints
    log_start: Ints
    end: Ints
    complete: Bools
    end_ns: Ints
    maybe_gone: Ints
    emptied_ns: Ints

    def at(self, codes: Ints, column: Ints, unknown: int) -> Ints:
        """A column's value for each key code; `unknown` for keys of which nothing is known."""
        if len(self.keys) == 0:
            return np.full(len(codes), unknown, np.int64)
        place = np.minimum(np.searchsorted(self.keys, codes), len(self.keys) - 1)
        return np.where(self.keys[place] == codes, column[place], unknown)

    def of(self, codes: Ints) -> tuple[Ints, Ints, Bools]:
        """(log start, end, complete) of each key code; 0, -1 and False where nothing is known."""
        complete = self.at(codes, self.complete.astype(np.int64), 0)
        return self.at(codes, self.log_start, 0), self.at(codes, self.end, -1), complete.astype(np.bool_)


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


def _last_rows(ends: pa.Table) -> dict[str, Ints]:
    """The last record of each (key, process) of a final poll."""
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
    """From the tables ENDS and DELETIONS."""
    asked = _Deletions.of(deletions)
    key = _column(ends, "key")
    keys = np.unique(np.concatenate([key, asked.key]))
    looked_op = np.full(len(keys), -1, np.int64)
    np.maximum.at(looked_op, np.searchsorted(keys, key), _column(ends, "op"))
    start = np.zeros(len(keys), np.int64)
    np.maximum.at(start, np.searchsorted(keys, key), _column(ends, "log_start"))
    gone_place = np.searchsorted(keys, asked.key)
    certain = asked.type == OK
    np.maximum.at(start, gone_place[certain], asked.before[certain])
    unseen = asked.op > looked_op[gone_place]
    maybe_gone = np.zeros(len(keys), np.int64)
    uncertain = unseen & (asked.type == INFO)
    np.maximum.at(maybe_gone, gone_place[uncertain], np.where(asked.before < 0, FOREVER, asked.before)[uncertain])
    emptied_ns = np.full(len(keys), -1, np.int64)
    emptied = unseen & certain & (asked.before < 0)
    np.maximum.at(emptied_ns, gone_place[emptied], asked.complete_ns[emptied])

    last = _last_rows(ends)
    place = np.searchsorted(keys, last["key"])
    end = np.full(len(keys), -1, np.int64)
    np.maximum.at(end, place, last["end"])
    position = np.full(len(keys), -1, np.int64)
    np.maximum.at(position, place, last["position"])

    end_ns = np.full(len(keys), -1, np.int64)
    np.maximum.at(end_ns, place, last["invoke_ns"])

    looked = (_column(ends, "position") < 0) & (_column(ends, "final") > 0)
    beyond = np.full(len(keys), -1, np.int64)
    np.maximum.at(beyond, np.searchsorted(keys, key[looked]), _column(ends, "end")[looked])
    complete = (end >= 0) & (position >= end) & (beyond <= end)
    end_ns[beyond > end] = -1
    return Ends(keys, start, end, complete, end_ns, maybe_gone, emptied_ns)


@dataclass(frozen=True, slots=True)
class _Deletions:
    """The columns of DELETIONS, but for the requests that failed."""

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
    """A log that did not begin at 0 when it was looked at.

    start      the highest log start that was seen
    seen_ns    when a look first told so, at the latest
    requested  offset up to which requests to delete explain it
    emptied_ns when a request to delete up to the end of the log was done; -1: none, FOREVER: it never told
    """

    key: int
    start: int
    seen_ns: int
    requested: int
    emptied_ns: int


def moved_starts(ends: pa.Table, deletions: pa.Table) -> list[MovedStart]:
    """Logs whose beginning moved further than requests to delete explain by their offsets, by key code."""
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

    asked = _Deletions.of(deletions)
    place = np.minimum(np.searchsorted(keys, asked.key), len(keys) - 1)
    rows = keys[place] == asked.key
    requested = np.zeros(len(keys), np.int64)
    np.maximum.at(requested, place[rows], asked.before[rows])
    rows &= asked.before < 0
    emptied_ns = np.full(len(keys), -1, np.int64)
    np.maximum.at(emptied_ns, place[rows], np.where(asked.complete_ns < 0, FOREVER, asked.complete_ns)[rows])
    columns = (keys, highest, first_ns, requested, emptied_ns)
    rows = np.flatnonzero(highest > requested)
    return [MovedStart(*cells) for cells in zip(*(column[rows].tolist() for column in columns), strict=True)]


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
