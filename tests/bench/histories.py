"""Valid histories of any size, made by numpy straight into the tables that a run stores.

    python -m tests.bench.histories FOLDER --ops 1000000 [--txn] [--keys 64] [--log]

Clients take turns in rounds: in each, every slot invokes one op, then all complete, so ops of one round
overlap and rounds do not. What the ops of a round append stands in the log in the order of slots, which is
not that of completions, and a consumer reads, at its first poll in a later round, all that is new in its
keys. One send in a hundred ops fails, one in ten thousand stays unknown (half of those did append), and its
slot goes on as a new process that assigns its keys again. The last round is the final polls, which stand at
the ends of the logs. So every analysis has its usual work, and nothing is wrong.

With `txn`, ops are transactions of one to four micro-ops, each of which leaves a marker in the log of each
key that it wrote to. `ops_of` gives the same history op by op, for small sizes; `write_log` writes it as a
log.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from checker.tables import make_tables, read_history, schema
from checker.tables.coding import EMPTY
from checker.tables.packing import Bools, Ints, begins, order
from checker.tables.schema import ASSIGN, FAIL, INFO, OK
from harness.model import op_json

SLOTS = 10
MOPS = 4
TICK_NS = 20_000
FAIL_RATE, INFO_RATE = 0.01, 0.0001
ASSIGNS, SINGLE_SEND, SINGLE_POLL, TXN = range(4)
TYPE_NAMES = tuple(schema.TYPE_CODES)
F_NAMES = ("assign", "send", "poll", "txn")
FIELDS = ("index", "time_ns", "process", "type", "f", "value", "extra")  # as codec orders them
LINE_BYTES = 110  # of a log, on average


@dataclass(frozen=True, slots=True)
class Shape:
    """ops: invocations with their completions; fan: how many processes consume each key."""

    ops: int
    keys: int = 64
    txn: bool = False
    fan: int = 2
    seed: int = 1


@dataclass(frozen=True, slots=True)
class History:
    """Columns by op number (round * SLOTS + place of completion), and rows of sends and polled records."""

    shape: Shape
    f: Ints
    type: Ints
    slot: Ints
    process: Ints
    mops: Ints  # how many
    is_send: Bools  # (ops, MOPS)
    send_op: Ints
    send_mop: Ints
    send_key: Ints
    send_offset: Ints  # -1 where the client was not told
    poll_op: Ints
    poll_mop: Ints
    poll_send: Ints  # which send each polled record comes from
    poll_offset: Ints
    ends: Ints  # by key

    def invoke_index(self, op: Ints) -> Ints:
        return op // SLOTS * (2 * SLOTS) + self.slot[op]

    def complete_index(self, op: Ints) -> Ints:
        result: Ints = op // SLOTS * (2 * SLOTS) + SLOTS + op % SLOTS
        return result


def consumers(shape: Shape) -> Ints:
    """(keys, fan): the slots that read each key."""
    key = np.arange(shape.keys)[:, None]
    step = np.arange(shape.fan)[None, :] * (1 + key // SLOTS % (SLOTS - 1))
    result: Ints = (key + step) % SLOTS
    return result


def make(shape: Shape) -> History:
    """The history. Same shape, same history."""
    random = np.random.default_rng(shape.seed)
    rounds = max(4, shape.ops // SLOTS)
    ops = rounds * SLOTS
    op = np.arange(ops)
    turn = op // SLOTS
    slot = (op + turn) % SLOTS
    if shape.txn:
        f = np.full(ops, TXN, np.int8)
        mops = random.integers(1, MOPS + 1, ops, np.int8)
        is_send = random.random((ops, MOPS)) < 0.5
    else:
        f = np.where((turn + slot) % 2 == 0, SINGLE_SEND, SINGLE_POLL).astype(np.int8)
        mops = np.ones(ops, np.int8)
        is_send = np.repeat((f == SINGLE_SEND)[:, None], MOPS, axis=1)
    last = turn == rounds - 1
    f[last] = SINGLE_POLL
    mops[last] = 1
    is_send[last] = False
    is_send &= np.arange(MOPS)[None, :] < mops[:, None]
    kind, assigning, process = _types(random, is_send.any(axis=1) & (turn > 0) & (turn < rounds - 3), slot)
    f[assigning] = ASSIGNS
    mops[assigning] = 0
    is_send[assigning] = False
    has_poll = (mops > is_send.sum(axis=1)) & (kind == OK)

    send_op, send_mop = np.nonzero(is_send)
    send_key = random.integers(0, shape.keys, len(send_op))
    in_log = (kind[send_op] == OK) | ((kind[send_op] == INFO) & (send_op % 2 == 0))
    offset, ends = _offsets(send_op, send_key, in_log, slot, shape)
    poll_op, poll_send = _polls(shape, send_op, send_key, in_log, has_poll, slot)
    by = order(poll_op, send_key[poll_send], offset[poll_send])
    poll_op, poll_send = poll_op[by], poll_send[by]
    first_poll = np.argmin(is_send, axis=1)  # the first micro-op that is none
    known_offset = np.where(kind[send_op] == OK, offset, -1)
    return History(
        shape,
        f,
        kind,
        slot,
        process,
        mops,
        is_send,
        send_op,
        send_mop,
        send_key,
        known_offset,
        poll_op,
        first_poll[poll_op],
        poll_send,
        offset[poll_send],
        ends,
    )


def _types(random: np.random.Generator, may: Bools, slot: Ints) -> tuple[Ints, Bools, Ints]:
    """(type of each op, which ops are assigns, process of each op). `may`: which ops may go wrong."""
    ops = len(slot)
    luck = random.random(ops)
    info = may & (luck < INFO_RATE)
    kind = np.where(info, INFO, np.where(may & (luck > 1 - FAIL_RATE), FAIL, OK)).astype(np.int8)
    by_slot = np.empty((SLOTS, ops // SLOTS), np.int64)
    by_slot[slot, np.arange(ops) // SLOTS] = np.arange(ops)
    retired = np.cumsum(info[by_slot], axis=1)
    before = np.concatenate([np.zeros((SLOTS, 1), np.int64), retired[:, :-1]], axis=1)
    process = np.empty(ops, np.int64)
    process[by_slot] = np.arange(SLOTS)[:, None] + SLOTS * before
    assigning = np.zeros(ops, np.bool_)
    assigning[by_slot[:, 0]] = True
    after = by_slot[:, 1:][info[by_slot[:, :-1]]]
    assigning[after] = True
    kind[assigning] = OK
    return kind, assigning, process


def _offsets(op: Ints, key: Ints, in_log: Bools, slot: Ints, shape: Shape) -> tuple[Ints, Ints]:
    """(offset of each send, -1 outside the log; end of each key's log)."""
    rows = np.flatnonzero(in_log)
    rows = rows[order(key[rows], op[rows] // SLOTS, slot[op[rows]])]  # an op's sends stay in order
    heads = begins(key[rows])
    place = np.arange(len(rows))
    start = np.maximum.accumulate(np.where(heads, place, 0))
    offset_of = place - start
    if shape.txn:
        markers = np.cumsum(begins(key[rows], op[rows]))
        offset_of += markers - markers[start]
    offset = np.full(len(op), -1, np.int64)
    offset[rows] = offset_of
    ends = np.zeros(shape.keys, np.int64)
    np.maximum.at(ends, key[rows], offset_of + (2 if shape.txn else 1))
    return offset, ends


def _polls(
    shape: Shape, send_op: Ints, send_key: Ints, in_log: Bools, has_poll: Bools, slot: Ints
) -> tuple[Ints, Ints]:
    """(op, send) of each polled record: each consumer's first poll in a round after the send's."""
    readers = consumers(shape)
    logged = np.flatnonzero(in_log)
    ops, sends = [], []
    for reader in range(SLOTS):
        polling = np.flatnonzero(has_poll & (slot == reader))
        mine = logged[(readers == reader).any(axis=1)[send_key[logged]]]
        ops.append(polling[np.searchsorted(polling // SLOTS, send_op[mine] // SLOTS, side="right")])
        sends.append(mine)
    return np.concatenate(ops), np.concatenate(sends)


# --- tables -------------------------------------------------------------------------------------------


def _texts(names: tuple[str, ...], codes: Ints) -> pa.Array:
    return pa.array(names).take(pa.array(codes))


def _op_level(history: History, op: Ints) -> dict[str, Ints]:
    return {
        "op": history.complete_index(op),
        "process": history.process[op],
        "type": history.type[op],
        "invoke_ns": history.invoke_index(op) * TICK_NS,
        "complete_ns": history.complete_index(op) * TICK_NS,
    }


def _table(form: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    return pa.table([pa.array(columns[field.name], field.type) for field in form], schema=form)


def tables(history: History, low: int, high: int) -> dict[str, pa.Table]:
    """The tables of the ops from `low` up to `high`."""
    op = np.arange(low, high)
    level = _op_level(history, op)
    complete, final = level.pop("complete_ns"), op // SLOTS == len(history.f) // SLOTS - 1
    found = {
        "ops": _table(
            schema.OPS,
            {
                **level,
                "index": level["op"],
                "invoke_index": history.invoke_index(op),
                "complete_ns": complete,
                "type": _texts(TYPE_NAMES, history.type[low:high]),
                "f": _texts(F_NAMES, history.f[low:high]),
                "error": pa.nulls(len(op), pa.string()),
                "final": final,
            },
        )
    }
    rows = slice(*np.searchsorted(history.send_op, [low, high]))
    sent = history.send_op[rows]
    columns: dict[str, Any] = {**_op_level(history, sent), "key": history.send_key[rows]}
    columns |= {"value": np.arange(rows.start, rows.stop), "offset": history.send_offset[rows]}
    columns |= {"mop": history.send_mop[rows], "txn": history.f[sent] == TXN}
    found["sends"] = _table(schema.SENDS, columns)
    rows = slice(*np.searchsorted(history.poll_op, [low, high]))
    value = history.poll_send[rows]
    columns = {**_op_level(history, history.poll_op[rows]), "key": history.send_key[value], "value": value}
    columns |= {"offset": history.poll_offset[rows], "mop": history.poll_mop[rows]}
    found["polls"] = _table(schema.POLLS, columns)
    return {**found, **_small(history, op)}


def _small(history: History, op: Ints) -> dict[str, pa.Table]:
    readers = consumers(history.shape)
    found = {name: form.empty_table() for name, form in schema.BESIDE.items()}
    index = history.complete_index(np.arange(0))
    rows = []
    for at in op[history.f[op] == ASSIGNS].tolist():
        keys = np.flatnonzero((readers == history.slot[at]).any(axis=1)).tolist() or [EMPTY]
        index = int(history.complete_index(np.array(at)))
        rows += [(index, int(history.process[at]), OK, ASSIGN, False, key) for key in keys]
    if rows:
        found["assigns"] = _table(schema.ASSIGNS, dict(zip(schema.ASSIGNS.names, zip(*rows, strict=True), strict=True)))
    rows = []
    for at in op[op // SLOTS == len(history.f) // SLOTS - 1].tolist():
        index, process = int(history.complete_index(np.array(at))), int(history.process[at])
        times = (int(history.invoke_index(np.array(at))) * TICK_NS, index * TICK_NS)
        for key in np.flatnonzero((readers == history.slot[at]).any(axis=1)).tolist():
            rows.append((index, process, True, key, int(history.ends[key]), 0, int(history.ends[key]), *times))
    if rows:
        found["ends"] = _table(schema.ENDS, dict(zip(schema.ENDS.names, zip(*rows, strict=True), strict=True)))
    return found


def meta_of(history: History, buckets: int, sources: list[list[Any]]) -> dict[str, Any]:
    """What ingestion would have counted."""
    counts: dict[str, dict[str, int]] = {}
    for f in np.unique(history.f).tolist():
        kinds = np.bincount(history.type[history.f == f], minlength=3).tolist()
        counts[F_NAMES[f]] = {name: n for name, n in zip(TYPE_NAMES, kinds, strict=True) if n}
    ops = len(history.f)
    last = int(history.complete_index(np.array(ops - 1)))
    return {
        "schema": schema.SCHEMA,
        "sources": sources,
        "buckets": buckets,
        "lines": 2 * ops,
        "ops": ops,
        "counts": counts,
        "last_ok_op": last,
        "last_ok_ns": last * TICK_NS,
        "max_ns": last * TICK_NS,
        "final_processes": {str(int(p)): "ok" for p in history.process[ops - SLOTS :]},
        "truncated": None,
        "doubts": [],
        "missing": None,
        "run": "bench",
    }


def write_tables(history: History, run: Path, buckets: int | None = None, chunk: int = 1_000_000) -> None:
    """A run folder with tables, and a log that holds its header only."""
    (run / "history").mkdir(parents=True, exist_ok=True)
    log = run / "history" / "00000.jsonl"
    log.write_bytes(op_json.header("bench", 0, 0, 0))
    ops = len(history.f)
    count = buckets or make_tables.buckets_of(2 * ops * LINE_BYTES)
    (run / "tables").mkdir()
    writer = make_tables.Writer(run / "tables", count)
    for low in range(0, ops, chunk):
        writer.write(tables(history, low, min(ops, low + chunk)))
    writer.finish(meta_of(history, count, [read_history.identity(log)]), [])


# --- op by op -----------------------------------------------------------------------------------------


def _values(history: History, op: int) -> tuple[list[Any], list[Any]]:
    """The micro-ops of an op as invoked and as completed."""
    low, high = np.searchsorted(history.send_op, [op, op + 1]).tolist()
    sends = {int(history.send_mop[row]): row for row in range(low, high)}
    low, high = np.searchsorted(history.poll_op, [op, op + 1]).tolist()
    polled: dict[int, list[list[int]]] = {}
    for row in range(low, high):
        value = int(history.poll_send[row])
        pair = [int(history.poll_offset[row]), value]
        polled.setdefault(int(history.send_key[value]), []).append(pair)
    invoked: list[Any] = []
    completed: list[Any] = []
    for mop in range(int(history.mops[op])):
        if mop in sends:
            row = sends[mop]
            key, offset = int(history.send_key[row]), int(history.send_offset[row])
            invoked.append(["send", key, row])
            completed.append(["send", key, row if offset < 0 else [offset, row]])
        else:
            invoked.append(["poll"])
            completed.append(["poll", [[key, pairs] for key, pairs in polled.items()]])
            polled = {}
    return invoked, completed if history.type[op] == OK else invoked


def ops_of(history: History) -> Iterator[dict[str, Any]]:
    """The history op by op, as the data of log lines."""
    readers = consumers(history.shape)
    keys = [np.flatnonzero((readers == slot).any(axis=1)).tolist() for slot in range(SLOTS)]
    rounds = len(history.f) // SLOTS
    for turn in range(rounds):
        ends: list[dict[str, Any]] = []
        starts: list[dict[str, Any]] = []
        for op in range(turn * SLOTS, (turn + 1) * SLOTS):
            slot = int(history.slot[op])
            f = F_NAMES[history.f[op]]
            invoked, completed = (keys[slot], keys[slot]) if f == "assign" else _values(history, op)
            common = {"process": int(history.process[op]), "f": f}
            extra: dict[str, Any] = {"final": True} if turn == rounds - 1 else {}
            start = {"index": 2 * SLOTS * turn + slot, **common, "type": "invoke", "value": invoked}
            starts.append({**start, "extra": extra} if extra else start)
            if extra:
                extra = {
                    **extra,
                    "positions": [[key, int(history.ends[key])] for key in keys[slot]],
                    "ends": [[key, 0, int(history.ends[key])] for key in keys[slot]],
                }
            end = {"index": 2 * SLOTS * turn + SLOTS + op % SLOTS, **common, "value": completed}
            end["type"] = TYPE_NAMES[history.type[op]]
            ends.append({**end, "extra": extra} if extra else end)
        for data in (*sorted(starts, key=lambda data: data["index"]), *ends):
            whole = {**data, "time_ns": data["index"] * TICK_NS}
            yield {name: whole[name] for name in FIELDS if name in whole}


def write_log(history: History, folder: Path, segment_bytes: int = 64 << 20) -> None:
    """The history as a run's log: history/NNNNN.jsonl below `folder`."""
    (folder / "history").mkdir(parents=True, exist_ok=True)
    lines: list[bytes] = []
    size = number = 0

    def roll() -> None:
        nonlocal number, size
        path = folder / "history" / f"{number:05d}.jsonl"
        path.write_bytes(op_json.header("bench", number, 0, 0) + b"".join(lines))
        lines.clear()
        number, size = number + 1, 0

    for data in ops_of(history):
        lines.append(orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE))
        size += len(lines[-1])
        if size > segment_bytes:
            roll()
    roll()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=64)
    parser.add_argument("--fan", type=int, default=2, help="how many processes consume each key")
    parser.add_argument("--txn", action="store_true")
    parser.add_argument("--log", action="store_true", help="the log instead of tables")
    given = parser.parse_args()
    history = make(Shape(given.ops, given.keys, given.txn, given.fan))
    if given.log:
        write_log(history, given.folder)
    else:
        write_tables(history, given.folder)


if __name__ == "__main__":
    main()
