"""The rows of a history while they are collected, as lists, and how they become tables.

Appending to lists is the cheapest that Python offers per row; op-level columns are repeated by numpy when the
tables are made.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker import schema
from checker.coding import EMPTY, Coder
from checker.packing import Ints
from harness.model.errors import BadHistory

_OPS: Final = tuple(field.name for field in schema.OPS)


def _lists(*names: str) -> dict[str, list[Any]]:
    return {name: [] for name in names}


class Held:
    """Growing columns.

    ops        columns of OPS; type_codes beside them
    sends      one entry per send; `row` is the position of its op in `ops`
    polls      one entry per poll and key, with the number of its records in poll_offset and poll_value
    empties    one entry per poll and key that held nothing
    small      rows of the tables that are not spread over buckets
    """

    __slots__ = ("empties", "ops", "poll_offset", "poll_value", "polls", "sends", "small", "type_codes")

    def __init__(self) -> None:
        self.ops = _lists(*_OPS)
        self.type_codes: list[int] = []
        self.sends = _lists("row", "mop", "key", "value", "offset")
        self.polls = _lists("row", "mop", "key", "count")
        self.poll_offset: list[Any] = []
        self.poll_value: list[Any] = []
        self.empties = _lists("row", "mop", "key")
        self.small: dict[str, list[tuple[Any, ...]]] = {name: [] for name in schema.SMALL}

    def tables(self, coder: Coder) -> dict[str, pa.Table]:
        """ops, sends, polls and the small tables. Raises BadHistory for offsets that are not integers."""
        result = {
            "ops": self._ops_table(),
            "sends": self._sends_table(coder),
            "polls": self._polls_table(coder),
        }
        for name, form in schema.SMALL.items():
            columns = list(zip(*self.small[name], strict=True)) or [()] * len(form)
            arrays = [pa.array(list(column), field.type) for column, field in zip(columns, form, strict=True)]
            result[name] = pa.table(arrays, schema=form)
        return result

    def _ops_table(self) -> pa.Table:
        columns = dict(self.ops)
        complete = np.array(columns["complete_ns"], np.int64)
        arrays = [
            pa.array(complete, mask=complete < 0)
            if field.name == "complete_ns"
            else pa.array(columns[field.name], field.type)
            for field in schema.OPS
        ]
        return pa.table(arrays, schema=schema.OPS)

    def _op_level(self, rows: Ints) -> dict[str, Any]:
        ops = self.ops
        return {
            "op": np.array(ops["index"], np.int64)[rows],
            "process": np.array(ops["process"], np.int64)[rows],
            "type": np.array(self.type_codes, np.int8)[rows],
            "invoke_ns": np.array(ops["invoke_ns"], np.int64)[rows],
            "complete_ns": np.array(ops["complete_ns"], np.int64)[rows],
        }

    def _sends_table(self, coder: Coder) -> pa.Table:
        sends = self.sends
        rows = np.array(sends["row"], np.int64)
        is_txn = np.array([f == "txn" for f in self.ops["f"]], np.bool_)
        columns = {
            **self._op_level(rows),
            "key": coder.codes(sends["key"]),
            "value": coder.codes(sends["value"]),
            "offset": np.array(sends["offset"], np.int64),
            "mop": np.array(sends["mop"], np.int64),
            "txn": is_txn[rows],
        }
        return pa.table([pa.array(columns[field.name]) for field in schema.SENDS], schema=schema.SENDS)

    def _offsets(self) -> Ints:
        kinds = set(map(type, self.poll_offset))
        try:
            if kinds <= {int}:
                return np.array(self.poll_offset, np.int64)
            if kinds <= {int, type(None)}:
                return np.array([-1 if offset is None else offset for offset in self.poll_offset], np.int64)
        except OverflowError:
            pass
        raise BadHistory(self._bad_offset())

    def _bad_offset(self) -> str:
        """What to say of polled offsets that do not fit: the first, and the op that polled it."""
        bad = next(
            place
            for place, offset in enumerate(self.poll_offset)
            if offset is not None and (type(offset) is not int or not -(1 << 63) <= offset < 1 << 63)
        )
        entry = int(np.searchsorted(np.cumsum(self.polls["count"]), bad, side="right"))
        op = self.ops["index"][self.polls["row"][entry]]
        return (
            f"op {op}: a polled offset is not an integer ({str(self.poll_offset[bad])[:80]}); "
            "mend the history, or the client that wrote it"
        )

    def _polls_table(self, coder: Coder) -> pa.Table:
        polls, empties = self.polls, self.empties
        counts = np.array(polls["count"], np.int64)
        row = np.concatenate(
            [np.repeat(np.array(polls["row"], np.int64), counts), np.array(empties["row"], np.int64)]
        )
        mop = np.concatenate(
            [np.repeat(np.array(polls["mop"], np.int64), counts), np.array(empties["mop"], np.int64)]
        )
        key = np.concatenate([np.repeat(coder.codes(polls["key"]), counts), coder.codes(empties["key"])])
        hollow = len(empties["row"])
        value = np.concatenate([coder.codes(self.poll_value), np.full(hollow, EMPTY, np.int64)])
        offset = np.concatenate([self._offsets(), np.full(hollow, -1, np.int64)])
        columns = {**self._op_level(row), "key": key, "value": value, "offset": offset, "mop": mop}
        if hollow:
            by = np.argsort(row, kind="stable")
            columns = {name: column[by] for name, column in columns.items()}
        return pa.table([pa.array(columns[field.name]) for field in schema.POLLS], schema=schema.POLLS)
