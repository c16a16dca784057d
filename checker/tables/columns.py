"""The rows of one bucket as numpy columns, in which the (key, value) pairs are numbered 0, 1, 2, ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from checker.tables.coding import EMPTY
from checker.tables.packing import (
    AnyInts,
    Bools,
    Bytes,
    Ints,
    Shorts,
    empty,
    joint_ranks,
    member,
    ranks,
)
from checker.tables.schema import INFO, OK


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of sends or polls, as columns of equal length. `pair` is the number of the row's (key, value) pair.

    Some columns use types smaller than int64, because a key may have ten million rows.
    """

    pair: Ints
    key: Ints  # key rank
    offset: Ints
    op: Ints
    mop: Shorts
    process: Ints
    type: Bytes
    invoke_ns: Ints  # empty for polls, because no kernel uses it
    complete_ns: Ints

    def __len__(self) -> int:
        return len(self.pair)

    def where(self, rows: Any) -> Columns:
        """Returns the rows that `rows` selects: a mask, a slice, or row numbers in any order."""
        if getattr(rows, "dtype", None) == np.bool_ and bool(rows.all()):
            return self
        columns = (getattr(self, name) for name in self.__slots__)
        return Columns(*(column[rows] if len(column) else column for column in columns))


def _ints(table: pa.Table, name: str) -> Ints:
    column = table.column(name).to_numpy()
    result: Ints = column.astype(np.int64, copy=False)
    return result


def _columns(table: pa.Table, pair: Ints, key: Ints) -> Columns:
    names = table.schema.names
    invoke_ns = _ints(table, "invoke_ns") if "invoke_ns" in names else empty()
    complete_ns = _ints(table, "complete_ns") if "complete_ns" in names else empty()
    offset, op, process = (_ints(table, name) for name in ("offset", "op", "process"))
    mop = table.column("mop").to_numpy().astype(np.int32)  # position in an op
    kind = table.column("type").to_numpy().astype(np.int8, copy=False)
    return Columns(pair, key, offset, op, mop, process, kind, invoke_ns, complete_ns)


@dataclass(frozen=True, slots=True)
class Small:
    """The tables other than ops, sends and polls, as Arrow tables, and the metadata (`checker.tables.make_tables`).

    Except for `commits`, `deliveries` and `acknowledgements`, they are not split into buckets.
    """

    assigns: pa.Table
    rebalances: pa.Table
    ends: pa.Table
    deletions: pa.Table
    cleaned: pa.Table
    nemesis: pa.Table
    share_ops: pa.Table
    share_offsets: pa.Table
    dead_letters: pa.Table
    commits: pa.Table
    deliveries: pa.Table
    acknowledgements: pa.Table
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Data:
    """The rows of one bucket.

    keys        the distinct key codes, ascending; the position of a code in this array is its key rank
    pair_key    for each (key, value) pair: the key rank
    pair_value  for each (key, value) pair: the coded value
    sends       the sends, in the order of the history
    polls       the polled records, in the order of the history
    nothing     the polls of a key that returned no record
    send_txn    for each row of `sends`: whether the op's `f` is "txn"
    """

    keys: Ints
    pair_key: Ints
    pair_value: Ints
    sends: Columns
    polls: Columns
    nothing: Columns
    send_txn: Bools

    @classmethod
    def of(cls, sends: pa.Table, polls: pa.Table) -> Data:
        """Makes the rows of a bucket from its tables of sends and polls."""
        sends, polls = _ascending(sends), _ascending(polls)
        keys, key = ranks(np.concatenate([_ints(sends, "key"), _ints(polls, "key")]))
        send_key, poll_key = key[: sends.num_rows], key[sends.num_rows :]
        poll_value = _ints(polls, "value")
        something = poll_value != EMPTY
        all_something = bool(something.all())
        if not all_something:
            nothing = _columns(polls, poll_value, poll_key).where(~something)
            poll_key_some, poll_value = poll_key[something], poll_value[something]
        else:
            poll_key_some = poll_key
        pair_key, pair_value, send_pair, poll_pair = joint_ranks(
            (send_key, _ints(sends, "value")), (poll_key_some, poll_value)
        )
        if all_something:
            seen = _columns(polls, poll_pair, poll_key)
            nothing = seen.where(slice(0, 0))
        else:
            seen = _columns(polls.filter(pa.array(something)), poll_pair, poll_key_some)
        txn = sends.column("txn").to_numpy().astype(np.bool_, copy=False)
        return cls(keys, pair_key, pair_value, _columns(sends, send_pair, send_key), seen, nothing, txn)

    @cached_property
    def polled_ok(self) -> Bools:
        """For each pair: whether an `ok` op polled the value."""
        seen = np.zeros(len(self.pair_key), np.bool_)
        seen[self.polls.pair[self.polls.type == OK]] = True
        return seen

    @cached_property
    def writer_row(self) -> Ints:
        """For each pair: the row in `sends` of the last send of the value; -1 if the value was not sent."""
        row = np.full(len(self.pair_key), -1, np.int64)
        row[self.sends.pair] = np.arange(len(self.sends))
        return row

    @cached_property
    def writer(self) -> Ints:
        """For each pair: the op that sent the value last; -1 if no op did."""
        return self._of_writer(self.sends.op)

    @cached_property
    def writer_type(self) -> AnyInts:
        """For each pair: the type of the op that sent the value last; -1 if no op did."""
        return self._of_writer(self.sends.type)

    @cached_property
    def writer_offset(self) -> AnyInts:
        """For each pair: the offset that the last send of the value returned; -1 if there is none."""
        return self._of_writer(self.sends.offset)

    @cached_property
    def writer_txn(self) -> Bools:
        """For each pair: whether the op that sent the value last is a transaction (its `f` is "txn")."""
        result: Bools = self._of_writer(self.send_txn) > 0
        return result

    def _of_writer(self, column: AnyInts | Bools) -> AnyInts:
        if len(column) == 0:
            return self.writer_row
        return np.where(self.writer_row < 0, -1, column[np.maximum(self.writer_row, 0)])

    def visible_info(self) -> Ints:
        """Returns the ascending ids of the `info` ops that sent a value of this bucket that an `ok` op polled."""
        rows = (self.sends.type == INFO) & self.polled_ok[self.sends.pair]
        return np.unique(self.sends.op[rows])


def visible_info(infos: pa.Table, polls: pa.Table) -> Ints:
    """Returns the same ids as `Data.visible_info`, from tables with fewer columns.

    infos  op, key and value of each send of an `info` op
    polls  key and value of each record that an `ok` op polled
    """
    sent_key, sent_value, op = (_ints(infos, name) for name in ("key", "value", "op"))
    key, value = _ints(polls, "key"), _ints(polls, "value")
    rows = np.flatnonzero(member(value, np.unique(sent_value)))
    _, _, sent, read = joint_ranks((sent_key, sent_value), (key[rows], value[rows]))
    return np.unique(op[member(sent, np.unique(read))])


def _ascending(table: pa.Table) -> pa.Table:
    """Returns the rows sorted by op.

    The rows of the table may be unsorted: the rows of invocations that were never completed are at the end of the
    files.
    """
    op = _ints(table, "op")
    if len(op) and bool((op[1:] < op[:-1]).any()):
        return table.take(pa.array(np.argsort(op, kind="stable")))
    return table
