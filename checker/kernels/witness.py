"""Tables of witnesses, and their conversion to plain data.

A kernel returns its witnesses as an Arrow table of int64 columns, some of them lists or nullable. The columns in
OP_FIELDS contain ids of ops. The columns in CODED_FIELDS contain codes of keys and values. The columns have the names
of the fields in Jepsen's error maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checker.tables.coding import BASE
from checker.tables.packing import Ints

# Columns that contain ids of ops, and columns that contain codes of keys and values.
OP_FIELDS: Final = frozenset({"op", "ops", "writer", "reader", "max-read"})
CODED_FIELDS: Final = frozenset({"key", "value", "value'", "values", "skipped", "messages", "group", "member"})


def table(columns: Mapping[str, Any]) -> pa.Table:
    """Makes a table of witnesses from numpy or Arrow columns."""
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def int_lists(flat: Ints, lengths: Ints) -> pa.Array:
    """Splits `flat` into consecutive lists of the given lengths."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(flat))


def pairs_of(a: Ints, b: Ints) -> pa.Array:
    """Returns a column of lists [a, b]."""
    flat = np.empty(2 * len(a), np.int64)
    flat[0::2], flat[1::2] = a, b
    return int_lists(flat, np.full(len(a), 2, np.int64))


def nullable(column: Ints) -> pa.Array:
    """Returns the column with negative numbers replaced with null."""
    return pa.array(column, mask=column < 0)


def worst(found: pa.Table, limit: int | None, worst_first: tuple[str, bool] | None) -> pa.Table:
    """Returns the `limit` most severe rows, worst first; all rows in their own order if `limit` is None.

    `worst_first` is (the column that gives the severity, whether larger is worse). If the column has lists, their
    length is the severity. If `worst_first` is None, the rows keep their order.
    """
    if limit is None:
        return found
    if worst_first is not None and found.num_rows > 1:
        field, descending = worst_first
        column = found.column(field)
        if pa.types.is_large_list(column.type):
            column = pc.list_value_length(column)
        weight = column.to_numpy()
        found = found.take(pa.array(np.argsort(-weight if descending else weight, kind="stable")[:limit]))
    return found.slice(0, limit)


def plain(found: pa.Table, original: Mapping[int, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a table as dicts, with codes replaced with the original keys and values."""
    return decoded(found.to_pylist(), original)


def decoded(rows: list[dict[str, Any]], original: Mapping[int, Any]) -> list[dict[str, Any]]:
    """Replaces codes in `rows` with the original keys and values. Changes the rows in place, and returns them."""
    if not original:
        return rows

    def back(code: Any) -> Any:
        return original.get(code, code) if isinstance(code, int) and code >= BASE else code

    for row in rows:
        for name in CODED_FIELDS & row.keys():
            coded = row[name]
            row[name] = [back(code) for code in coded] if isinstance(coded, list) else back(coded)
    return rows
