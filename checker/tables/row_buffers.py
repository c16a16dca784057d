"""Collects the rows of a history in flat lists, and turns them into tables.

In Python, the cheapest way to add a row is to extend a flat list by its cells. The fields of an op are stored once.
When the tables are made, numpy repeats them for each of the op's sends and polled records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.tables import schema
from checker.tables.coding import EMPTY, Coder, ints
from checker.tables.packing import Bools, Ints
from checker.tables.plain_lines import FS, TXN, Rows
from harness.model.errors_and_exit_codes import BadHistory

_SENDS: Final = ("row", "mop", "key", "value", "offset")
_POLLS: Final = ("row", "mop", "key", "count")
_NAMES: Final = {"sends": _SENDS, "polls": _POLLS, "empties": ("row", "mop", "key")}
_F_PLACE: Final = schema.OPS.names.index("f")
_TYPES: Final = pa.array(["ok", "info", "fail"])  # by the codes of TYPE_CODES
_FS: Final = pa.array(FS)


def _columns(cells: list[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Splits a flat list of cells, one row after another, into columns."""
    return {name: cells[place :: len(names)] for place, name in enumerate(names)}


class RowBuffers:
    """The rows added so far. Each attribute is a flat list: the cells of all rows, one row after another.

    ops          9 cells per op: the columns of the table OPS (checker.tables.schema)
    type_codes   1 cell per op: its type as a code
    sends        5 cells per send: row of its op in `ops`, number of its micro-op, key, value, offset
    polls        4 cells per poll and key: row of its op in `ops`, number of its micro-op, key, number of records
    poll_offset  1 cell per polled record: its offset
    poll_value   1 cell per polled record: its value
    empties      3 cells per poll and key without records: row of its op in `ops`, number of its micro-op, key
    small        not flat: table -> list of rows, for the tables other than ops, sends and polls
    """

    __slots__ = ("empties", "ops", "poll_offset", "poll_value", "polls", "sends", "small", "type_codes")

    def __init__(self) -> None:
        self.ops: list[Any] = []
        self.type_codes: list[int] = []
        self.sends: list[Any] = []
        self.polls: list[Any] = []
        self.poll_offset: list[Any] = []
        self.poll_value: list[Any] = []
        self.empties: list[Any] = []
        self.small: dict[str, list[tuple[Any, ...]]] = {name: [] for name in schema.BESIDE}

    def bad_offset(self) -> str:
        """Returns the error message for the first polled offset that is not a 64-bit integer."""
        bad = next(
            place
            for place, offset in enumerate(self.poll_offset)
            if offset is not None and (type(offset) is not int or not -(1 << 63) <= offset < 1 << 63)
        )
        polls = _columns(self.polls, _POLLS)
        row = polls["row"][int(np.searchsorted(np.cumsum(polls["count"]), bad, side="right"))]
        op = _columns(self.ops, schema.OPS.names)["index"][row]
        return (
            f"op {op}: a polled offset is not an integer ({str(self.poll_offset[bad])[:80]}); "
            "fix the history, or the client that wrote it"
        )


Part = RowBuffers | Rows


def size(part: Part) -> int:
    """Returns a measure of the memory that the rows need: the number of ops and records."""
    if isinstance(part, Rows):
        return len(part.index) + len(part.poll_value)
    return len(part.type_codes) + len(part.poll_value)


def tables(parts: Sequence[Part], coder: Coder) -> dict[str, pa.Table]:
    """Returns ops, sends, polls and the small tables of all parts, in their order.

    Raises BadHistory for an offset that is not an integer.
    """
    ops = [_ops_of(part) for part in parts]
    level = {
        name: _joined([_ints(columns[field]) for columns in ops])
        for name, field in (("process", "process"), ("invoke_ns", "invoke_ns"), ("complete_ns", "complete_ns"))
    }
    level["op"] = _joined([_ints(columns["index"]) for columns in ops])
    level["type"] = _joined([_type_codes(part) for part in parts], np.int8)
    is_txn = _joined([_is_txn(part) for part in parts], np.bool_)
    firsts = np.cumsum([0] + [len(columns["index"]) for columns in ops])
    result = {
        "ops": _ops_table(ops),
        "sends": _sends_table(parts, firsts, coder, level, is_txn),
        "polls": _polls_table(parts, firsts, coder, level),
    }
    for name, form in schema.BESIDE.items():
        rows = [row for part in parts if isinstance(part, RowBuffers) for row in part.small[name]]
        columns = list(zip(*rows, strict=True)) or [()] * len(form)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, form, strict=True)]
        result[name] = pa.table(arrays, schema=form)
    return result


def _joined(arrays: Sequence[Any], kind: Any = np.int64) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate([np.empty(0, kind), *arrays])


def _ints(column: Any) -> Ints:
    return column if isinstance(column, np.ndarray) else ints(column)


def _ops_of(part: Part) -> Mapping[str, Any]:
    """Returns the columns of ops as arrays or lists."""
    if isinstance(part, RowBuffers):
        return _columns(part.ops, schema.OPS.names)
    count = len(part.index)
    return {
        "index": part.index,
        "invoke_index": part.invoke_index,
        "process": part.process,
        "type": _TYPES.take(pa.array(part.kind)),
        "f": _FS.take(pa.array(part.f)),
        "invoke_ns": part.invoke_ns,
        "complete_ns": part.complete_ns,
        "error": pa.nulls(count, pa.string()),
        "final": np.zeros(count, np.bool_),
    }


def _type_codes(part: Part) -> Any:
    return np.array(part.type_codes, np.int8) if isinstance(part, RowBuffers) else part.kind


def _is_txn(part: Part) -> Bools:
    if isinstance(part, RowBuffers):
        return np.array([f == "txn" for f in part.ops[_F_PLACE :: len(schema.OPS)]], np.bool_)
    is_txn: Bools = part.f == TXN
    return is_txn


def _column(
    parts: Sequence[Part], kind: str, name: str, convert: Callable[[Any], Ints], firsts: Ints | None = None
) -> Ints:
    """Returns a column of sends, polls or empties. `firsts`: the first op of each part, to be added to rows.

    `convert` makes an array of a list of cells.
    """
    arrays = []
    for place, part in enumerate(parts):
        cells: Any = {"sends": part.sends, "polls": part.polls, "empties": part.empties}[kind]
        if isinstance(part, RowBuffers):
            names = _NAMES[kind]
            found = convert(cells[names.index(name) :: len(names)])
        else:
            found = cells[name]
        arrays.append(found if firsts is None else found + firsts[place])
    joined: Ints = _joined(arrays)
    return joined


def _sends_table(
    parts: Sequence[Part], firsts: Ints, coder: Coder, level: Mapping[str, Any], is_txn: Bools
) -> pa.Table:
    rows = _column(parts, "sends", "row", ints, firsts)
    columns = {
        **{name: column[rows] for name, column in level.items()},
        "key": _column(parts, "sends", "key", coder.codes),
        "value": _column(parts, "sends", "value", coder.codes),
        "offset": _column(parts, "sends", "offset", ints),
        "mop": _column(parts, "sends", "mop", ints),
        "txn": is_txn[rows],
    }
    return pa.table([pa.array(columns[field.name]) for field in schema.SENDS], schema=schema.SENDS)


def _offsets(part: Part) -> Ints:
    if isinstance(part, Rows):
        return part.poll_offset
    kinds = set(map(type, part.poll_offset))
    try:
        if kinds <= {int}:
            return ints(part.poll_offset)
        if kinds <= {int, type(None)}:
            return np.array([-1 if offset is None else offset for offset in part.poll_offset], np.int64)
    except OverflowError:
        pass
    raise BadHistory(part.bad_offset())


def _polls_table(parts: Sequence[Part], firsts: Ints, coder: Coder, level: Mapping[str, Any]) -> pa.Table:
    counts = _column(parts, "polls", "count", ints)
    row, mop = (
        np.concatenate(
            [np.repeat(_column(parts, "polls", name, ints, base), counts), _column(parts, "empties", name, ints, base)]
        )
        for name, base in (("row", firsts), ("mop", None))
    )
    key = np.repeat(_column(parts, "polls", "key", coder.codes), counts)
    empty_key = _column(parts, "empties", "key", coder.codes)
    values = [part.poll_value if isinstance(part, Rows) else coder.codes(part.poll_value) for part in parts]
    empty_count = len(empty_key)
    own = {
        "key": np.concatenate([key, empty_key]),
        "value": np.concatenate([*values, np.full(empty_count, EMPTY, np.int64)]),
        "offset": np.concatenate([*map(_offsets, parts), np.full(empty_count, -1, np.int64)]),
        "mop": mop,
    }
    if empty_count:
        by = np.argsort(row, kind="stable")
        row, own = row[by], {name: column[by] for name, column in own.items()}
    columns = {**{name: column[row] for name, column in level.items()}, **own}
    return pa.table([pa.array(columns[field.name]) for field in schema.POLLS], schema=schema.POLLS)


def _ops_table(parts: Sequence[Mapping[str, Any]]) -> pa.Table:
    arrays = []
    for field in schema.OPS:
        chunks = []
        for columns in parts:
            column = columns[field.name]
            if field.name == "complete_ns":
                complete = _ints(column)
                chunks.append(pa.array(complete, mask=complete < 0))
            else:
                chunks.append(column if isinstance(column, pa.Array) else pa.array(column, field.type))
        arrays.append(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
    return pa.table(arrays, schema=schema.OPS)
