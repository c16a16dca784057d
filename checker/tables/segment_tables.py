"""Converts a *piece* of a run's log (some neighbouring segments) to a part of the tables.

A piece can be converted without the earlier pieces if the state of the log before it is known: the invocations that are
still open, the last index and the last time. `scan` finds this state quickly, from the beginnings of lines. `convert`
writes ops, sends and polls to the tables' folder; it writes the small tables and record.json to `.segments/<first
segment>/`. checker.tables.join_segments joins the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow.parquet as pq

from checker.tables import make_tables, remote_run, schema
from checker.tables.coding import Coder
from checker.tables.read_history import Notes, identity, rarely_collecting, read_stretches
from checker.tables.small_rows import LIMIT
from checker.tables.table_builder import Builder

FOLDER: Final = ".segments"
RECORD: Final = "record.json"
_START: Final = re.compile(
    rb'^\{"index":(\d+),"time_ns":(-?\d+),"process":(-?\d+|"[^"\\\n]*"),"type":"(invoke|ok|fail|info)",.*\}$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a log after some of its lines, or how further lines change this state.

    open        process -> the line of its open invocation, which has not been completed so far
    last_index  the index of the last line
    last_ns     the time of the last line
    """

    open: Mapping[str, str] = field(default_factory=dict)
    last_index: int = -1
    last_ns: int = -LIMIT

    def then(self, later: State) -> State:
        """Returns this state after the changes `later`, which `scan` found in the following lines.

        In `later.open`, "" means that the process has no open invocation any more.
        """
        still_open = {process: line for process, line in {**self.open, **later.open}.items() if line}
        return State(still_open, later.last_index, later.last_ns)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some neighbouring segments of a log.

    files   their paths
    last    whether the last one of `files` is the last segment of the log
    before  the state of the log before the first segment
    texts   the dictionary (`checker.tables.coding`) before the first segment
    """

    files: tuple[str, ...]
    last: bool
    before: State = field(default_factory=State)
    texts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.files[0]).stem


def scan(files: Sequence[str]) -> State | None:
    """Returns how these segments change the state of the log; for "" in `open`, see `State.then`.

    Returns None if a segment is incomplete, or if a line is not in the harness's own format.
    """
    changed: dict[str, str] = {}
    index, time_ns = -1, -LIMIT
    for file in files:
        text = remote_run.local(Path(file)).read_bytes()
        header, _, rest = text.partition(b"\n")
        if b'"schema"' not in header or not rest.endswith(b"\n"):
            return None
        found, line = 0, None
        latest: dict[bytes, re.Match[bytes]] = {}
        for line in _START.finditer(rest):
            latest[line[3]] = line
            found += 1
        if found != rest.count(b"\n"):
            return None
        if line is not None:
            index, time_ns = int(line[1]), int(line[2])
        for process, match in latest.items():
            changed[process.decode()] = match[0].decode() if match[4] == b"invoke" else ""
    changed.pop('"nemesis"', None)
    return State(changed, index, time_ns)


def convert(piece: Piece, folder: Path, buckets: int) -> dict[str, Any]:
    """Converts a piece, and writes its part of the tables to `folder`.

    Returns the content of the piece's record.json. Raises BadHistory, Missing.
    """
    part = f"{piece.name}{remote_run.attempt()}"
    files = [remote_run.local(Path(file)) for file in piece.files]
    with make_tables.writing(folder), remote_run.written(folder) as place, rarely_collecting():
        own = place / FOLDER / part
        own.mkdir(parents=True, exist_ok=True)
        builder, notes = _builder(piece), Notes()
        identities = [identity(file) for file in files]
        writer = make_tables.Writer(place, buckets, f"{part}-")
        for line in read_stretches(files, piece.last, notes):
            builder.take(line)
            if builder.rows >= make_tables.CHUNK_ROWS:
                writer.write(builder.tables())
        if piece.last:
            builder.finish()
        writer.write(builder.tables())
        for kind, table in writer.small_tables().items():
            pq.write_table(table, own / f"{kind}.parquet")
        record = {
            "schema": schema.SCHEMA,
            "sources": identities,
            "buckets": buckets,
            "part": part,
            "last": piece.last,
            "files": writer.files,
            "lines": builder.lines,
            "counts": builder.counts,
            "last_ok": [builder.last_ok_op, builder.last_ok_ns],
            "max_ns": builder.max_ns,
            "final_processes": [*builder.final_processes.items()],
            "truncated": notes.truncated,
            "run": notes.run,
            "doubts": builder.doubts,
            "texts": builder.coder.texts,
        }
        (own / RECORD).write_bytes(orjson.dumps(record))
    return record


def _builder(piece: Piece) -> Builder:
    """Returns a builder in the state at the beginning of the piece."""
    builder = Builder(Coder(piece.texts))
    builder.last_index, builder.last_ns = piece.before.last_index, piece.before.last_ns
    for line in piece.before.open.values():
        builder.reopen(orjson.loads(line))
    return builder
