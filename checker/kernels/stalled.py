"""Finds consumers that stop reading before the end of a log, although the healthy cluster lets others read to the end.

Only the final polls are judged, and only those that were invoked after the cluster had settled. There, a client that
reads nothing for ten seconds starts over with a new process (workloads.final_polls). A client is stalled if at least
`TRIES` of its processes read something and then nothing for `IDLE_NS` before the end of a log, if none of its processes
read every log to the end, and if another client did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from checker.kernels.log_starts_and_ends import last_rows
from checker.kernels.unserved import of_client

COLUMNS: Final = ("op", "process", "final", "key", "position", "log_start", "end", "invoke_ns", "complete_ns")
IDLE_NS: Final = 9_000_000_000  # the ten seconds also include the last poll, which may take a moment
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Reader:
    """How far a process read in its final polls.

    behind   (key, position, log end offset) of a log that it did not read to the end; None if there is none
    moved    whether it read anything
    idle_ns  how long it had read nothing at its last poll
    """

    process: int
    behind: tuple[int, int, int] | None
    moved: bool
    idle_ns: int

    @property
    def stalled(self) -> bool:
        """Whether it stopped reading before the end of a log."""
        return self.behind is not None and self.moved and self.idle_ns >= IDLE_NS


def stalled(ends: pa.Table, clients: int, since_ns: int) -> list[Mapping[str, Any]]:
    """Returns {"where", "state", "waited_s", "logged"} for each client that stopped reading before the end of a log.

    ends      the table ENDS
    clients   the number of clients, at least 1; process % clients is the client
    since_ns  when the cluster had settled
    """
    done = _done(ends, clients)
    if not done:
        return []
    tried: dict[int, list[Reader]] = defaultdict(list)
    for process, rows in sorted(_polls(ends, since_ns, clients, done).items()):
        tried[process % clients].append(_reader(process, rows))
    found: list[Mapping[str, Any]] = []
    for client, readers in sorted(tried.items()):
        stopped = [each for each in readers if each.stalled]
        if len(stopped) < TRIES:
            continue
        last = stopped[-1]
        assert last.behind is not None
        key, position, end = last.behind
        found.append(
            {
                "where": of_client(client, (each.process for each in stopped)),
                "state": f"{len(stopped)} consumers in turn read nothing for ten seconds before the end of a log; the "
                f"last one stayed at offset {position} of key {key}, although the log goes on to {end}, and client "
                f"{min(done)} read every log to the end",
                "waited_s": round(sum(each.idle_ns for each in stopped) / 1e9, 1),
                "logged": {},
            }
        )
    return found


def _done(ends: pa.Table, clients: int) -> set[int]:
    """Returns the clients one of whose processes read every log to the end."""
    last = last_rows(ends)
    behind = set(last["process"][last["position"] < last["end"]].tolist())
    return {process % clients for process in set(last["process"].tolist()) - behind}


def _polls(ends: pa.Table, since_ns: int, clients: int, done: Collection[int]) -> dict[int, list[Mapping[str, int]]]:
    """Returns process -> the rows of its final polls, in the order of the polls, for the clients that are not done."""
    left = [process for process in pc.unique(ends.column("process")).to_pylist() if process % clients not in done]
    chosen = ends.select(COLUMNS).filter(pc.is_in(ends.column("process"), value_set=pa.array(left, pa.int64())))
    found: dict[int, list[Mapping[str, int]]] = defaultdict(list)
    for row in chosen.to_pylist():
        if row["final"] and row["position"] >= 0 and (row["invoke_ns"] or 0) >= since_ns:
            found[row["process"]].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["op"], row["key"]))
    return found


def _reader(process: int, rows: Sequence[Mapping[str, int]]) -> Reader:
    """Returns how far a process read, from the rows of its final polls."""
    moved_ns = rows[0]["complete_ns"]
    now: dict[int, Mapping[str, int]] = {}
    for row in rows:
        if row["key"] in now and row["position"] != now[row["key"]]["position"]:
            moved_ns = row["complete_ns"]
        now[row["key"]] = row
    behind = [(row["key"], row["position"], row["end"]) for row in now.values() if row["position"] < row["end"]]
    moved = any(row["position"] > row["log_start"] for row in now.values())
    return Reader(process, min(behind, default=None), moved, rows[-1]["complete_ns"] - moved_ns)
