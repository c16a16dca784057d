"""Collects the rows of a history in flat lists, and turns them into tables.

In Python, the cheapest way to add a row is to extend a flat list by its cells. The fields of an op are stored once.
When the tables are made, numpy repeats them for each of the op's sends and polled records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.tables import schema
from checker.tables.coding import EMPTY, Coder, ints
from checker.tables.packing import Bools, Ints
from harness.model.errors_and_exit_codes import BadHistory

_POLLS: Final = ("row", "mop", "key", "count")


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

    def tables(self, coder: Coder) -> dict[str, pa.Table]:
        """Returns name -> table, for all tables. Raises BadHistory if a polled offset is not an integer.

        `coder` encodes the keys and values.
        """
        ops = _columns(self.ops, schema.OPS.names)
        level = {name: ints(ops[name]) for name in ("index", "process", "invoke_ns", "complete_ns")}
        level["op"] = level.pop("index")
        level["type"] = np.array(self.type_codes, np.int8)
        is_txn = np.array([f == "txn" for f in ops["f"]], np.bool_)
        result = {
            "ops": _ops_table(ops),
            "sends": self._sends_table(coder, level, is_txn),
            "polls": self._polls_table(coder, level),
        }
        for name, form in schema.BESIDE.items():
            columns = list(zip(*self.small[name], strict=True)) or [()] * len(form)
            arrays = [pa.array(list(column), field.type) for column, field in zip(columns, form, strict=True)]
            result[name] = pa.table(arrays, schema=form)
        return result

    def _sends_table(self, coder: Coder, level: Mapping[str, Any], is_txn: Bools) -> pa.Table:
        sends = _columns(self.sends, ("row", "mop", "key", "value", "offset"))
        rows = ints(sends["row"])
        columns = {
            **{name: column[rows] for name, column in level.items()},
            "key": coder.codes(sends["key"]),
            "value": coder.codes(sends["value"]),
            "offset": ints(sends["offset"]),
            "mop": ints(sends["mop"]),
            "txn": is_txn[rows],
        }
        return pa.table([pa.array(columns[field.name]) for field in schema.SENDS], schema=schema.SENDS)

    def _offsets(self) -> Ints:
        kinds = set(map(type, self.poll_offset))
        try:
            if kinds <= {int}:
                return ints(self.poll_offset)
            if kinds <= {int, type(None)}:
                return np.array([-1 if offset is None else offset for offset in self.poll_offset], np.int64)
        except OverflowError:
            pass
        raise BadHistory(self._bad_offset())

    def _bad_offset(self) -> str:
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

    def _polls_table(self, coder: Coder, level: Mapping[str, Any]) -> pa.Table:
        polls = _columns(self.polls, _POLLS)
        empties = _columns(self.empties, ("row", "mop", "key"))
        counts = ints(polls["count"])
        row, mop = (
            np.concatenate([np.repeat(ints(polls[name]), counts), ints(empties[name])]) for name in ("row", "mop")
        )
        key = np.concatenate([np.repeat(coder.codes(polls["key"]), counts), coder.codes(empties["key"])])
        empty_count = len(empties["row"])
        value = np.concatenate([coder.codes(self.poll_value), np.full(empty_count, EMPTY, np.int64)])
        offset = np.concatenate([self._offsets(), np.full(empty_count, -1, np.int64)])
        own = {"key": key, "value": value, "offset": offset, "mop": mop}
        if empty_count:
            by = np.argsort(row, kind="stable")
            row, own = row[by], {name: column[by] for name, column in own.items()}
        columns = {**{name: column[row] for name, column in level.items()}, **own}
        return pa.table([pa.array(columns[field.name]) for field in schema.POLLS], schema=schema.POLLS)


def _ops_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    complete = ints(columns["complete_ns"])
    arrays = [
        pa.array(complete, mask=complete < 0)
        if field.name == "complete_ns"
        else pa.array(columns[field.name], field.type)
        for field in schema.OPS
    ]
    return pa.table(arrays, schema=schema.OPS)
