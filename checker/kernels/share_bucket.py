"""Defines `ShareBucket`: the deliveries and acknowledgements of share groups (KIP-932) in one bucket of keys.

A *record* is one (group, key, offset) that a group got or acknowledged. Records are numbered 0, 1, ... in that order.

The lock on a delivered record begins when the broker acquires the record for the member. The history does not contain
this time. The latest possible time is the completion of the poll. The acquisition may even be before the invocation of
the poll, because a client may return records of an earlier fetch. The earliest possible time is the invocation of the
record's send, or of the member's first op if that is later. A member certainly keeps its share session until its last
`ok` op completes. After that the session may have ended, and then the broker releases the member's records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from checker.kernels.disturbances import Disturbances, disturbances
from checker.kernels.missing_lines import lines_missing
from checker.kernels.witness import int_lists
from checker.kernels.witness import table as table_of
from checker.tables.coding import EMPTY
from checker.tables.columns import Data, Small
from checker.tables.packing import Bools, Ints, begins, empty, joint_ranks, order, ranks
from checker.tables.schema import (
    ACCEPT,
    OK,
    REJECT,
    SHARE_ACKNOWLEDGE,
    SHARE_CLOSE,
    SHARE_POLL,
    TIME_GOES_BACK,
)
from harness.model.check_options import CheckOptions, ShareGroups

MS: Final = 1_000_000
NEVER: Final = 1 << 62
_PLACE: Final = ("group", "key", "offset")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Members:
    """The members of all groups. A member's rank is its position in these arrays. Times are in ns.

    code     code of the member's name, ascending
    group    code of its group
    first    when its first op was invoked
    alive    when its last `ok` op other than share-close completed; `first` if there is no such op
    closed   whether its share-close was `ok`
    """

    code: Ints
    group: Ints
    first: Ints
    alive: Ints
    closed: Bools


def column(table: pa.Table, name: str) -> Ints:
    """Returns a column as int64."""
    values: Ints = table.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def members_of(share_ops: pa.Table) -> Members:
    """Returns the members that occur in the table SHARE_OPS."""
    kind = column(share_ops, "kind")
    mine = (kind == SHARE_POLL) | (kind == SHARE_ACKNOWLEDGE) | (kind == SHARE_CLOSE)
    code, rank = ranks(column(share_ops, "member")[mine])
    group, first, alive = (np.full(len(code), fill, np.int64) for fill in (0, NEVER, -1))
    closed = np.zeros(len(code), np.bool_)
    group[rank] = column(share_ops, "group")[mine]
    np.minimum.at(first, rank, column(share_ops, "invoke_ns")[mine])
    ok = column(share_ops, "type")[mine] == OK
    closes = kind[mine] == SHARE_CLOSE
    np.maximum.at(alive, rank[ok & ~closes], column(share_ops, "complete_ns")[mine][ok & ~closes])
    closed[rank[ok & closes]] = True
    return Members(code, group, first, np.maximum(alive, first), closed)


@dataclass(frozen=True, slots=True)
class Records:
    """The records that groups got or acknowledged, as columns. A record's number is its row.

    of_delivery         for each row of the table DELIVERIES: the number of its record
    of_acknowledgement  for each row of the table ACKNOWLEDGEMENTS: the number of its record
    """

    group: Ints
    key: Ints
    offset: Ints
    of_delivery: Ints
    of_acknowledgement: Ints


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Deliveries as columns, ordered by record, then by the completion of their poll, then by place in the poll.

    record     number of the record
    member     rank of the member
    value      coded value of the record
    count      delivery count that the broker reported
    place      position of the record in the poll
    op         the poll
    final      whether the poll belongs to the final phase
    renewed    whether the member got the record again because it had renewed its lock; this is no new delivery
    earliest   the earliest possible time of the acquisition, in ns
    sent_type  type of the op that sent the value; -1 if no op of the history sent it
    """

    record: Ints
    member: Ints
    value: Ints
    count: Ints
    place: Ints
    op: Ints
    final: Bools
    renewed: Bools
    invoke_ns: Ints
    complete_ns: Ints
    earliest: Ints
    sent_type: Ints

    def where(self, rows: Any) -> Deliveries:
        """Returns the rows that `rows` selects: a mask or row numbers."""
        return Deliveries(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """Acknowledgements as columns, ordered as `Deliveries`.

    member    rank of the member
    by_poll   whether a poll reported the result
    begin_ns  a lower bound of the time at which it was made
    """

    record: Ints
    member: Ints
    kind: Ints
    type: Ints
    error: Ints
    op: Ints
    complete_ns: Ints
    by_poll: Bools
    begin_ns: Ints

    def where(self, rows: Any) -> Acknowledgements:
        """Returns the rows that `rows` selects: a mask or row numbers."""
        return Acknowledgements(*(getattr(self, name)[rows] for name in self.__slots__))

    @property
    def ends(self) -> Bools:
        """Whether it accepts or rejects the record, after which the record is never delivered again."""
        result: Bools = (self.kind == ACCEPT) | (self.kind == REJECT)
        return result


@dataclass(frozen=True)
class ShareBucket:
    """One bucket of keys. `topics_first` has the completion of the first poll that returned a record, in ns, by
    (group, number of a topic); it is computed from all buckets."""

    data: Data
    small: Small
    options: CheckOptions
    topics_first: Mapping[tuple[int, int], int] = field(default_factory=dict)
    memo: dict[Callable[..., Any], Any] = field(default_factory=dict)

    def once(self, find: Callable[[ShareBucket], T]) -> T:
        """Returns `find(self)`. It is computed at the first call; later calls return the same result."""
        if find not in self.memo:
            self.memo[find] = find(self)
        found: T = self.memo[find]
        return found

    @property
    def settings(self) -> ShareGroups:
        return self.options.settings.share

    @property
    def lock_ns(self) -> int | None:
        return None if self.settings.lock_ms is None else self.settings.lock_ms * MS

    @property
    def provable(self) -> bool:
        """Whether something may be concluded from what is absent, and from times."""
        meta = self.small.meta
        return not lines_missing(meta) and not any(TIME_GOES_BACK in doubt for doubt in meta.get("doubts", ()))

    @cached_property
    def members(self) -> Members:
        return members_of(self.small.share_ops)

    @cached_property
    def disturbed(self) -> Disturbances:
        return disturbances(self.small.nemesis, self.options.settings)

    @cached_property
    def log(self) -> tuple[Ints, Ints, Ints]:
        """The log that the polls of the queue read, as (key rank, offset, pair), one row per offset, ascending."""
        polls = self.data.polls
        rows = np.flatnonzero((polls.type == OK) & (polls.offset >= 0))
        rows = rows[order(polls.key[rows], polls.offset[rows], -polls.op[rows])]
        key, offset = polls.key[rows], polls.offset[rows]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (key[1:] != key[:-1]) | (offset[1:] != offset[:-1])
        return key[new], offset[new], polls.pair[rows][new]

    @cached_property
    def _raw(self) -> tuple[pa.Table, pa.Table]:
        """The tables DELIVERIES and ACKNOWLEDGEMENTS."""
        return self.small.deliveries, self.small.acknowledgements

    @cached_property
    def records(self) -> Records:
        """The records that a group got or acknowledged."""
        group, key, offset = (np.concatenate([column(table, name) for table in self._raw]) for name in _PLACE)
        by = order(group, key, offset)
        new = begins(group[by], key[by], offset[by])
        heads = by[new]
        number = np.empty(len(by), np.int64)
        number[by] = np.cumsum(new) - 1
        cut = self._raw[0].num_rows
        return Records(group[heads], key[heads], offset[heads], number[:cut], number[cut:])

    @cached_property
    def sent(self) -> tuple[Ints, Ints]:
        """For each row of DELIVERIES: (invocation of its value's send in ns, type of the send); -1: it was not sent."""
        table, sends = self._raw[0], self.data.sends
        values = self.data.pair_value[sends.pair]
        keys = self.data.keys[sends.key]
        _, _, sent, delivered = joint_ranks(
            (keys, values),
            (column(table, "key"), column(table, "value")),
        )
        count = 1 + max(int(sent.max(initial=-1)), int(delivered.max(initial=-1)))
        invoked, outcome = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        invoked[sent], outcome[sent] = sends.invoke_ns, sends.type
        return invoked[delivered], outcome[delivered]

    def _rank(self, member: Ints) -> Ints:
        return np.searchsorted(self.members.code, member)

    @cached_property
    def all_deliveries(self) -> Deliveries:
        """The deliveries, including what members got again after they had renewed its lock."""
        table = self._raw[0]
        member = self._rank(column(table, "member"))
        own = {name: column(table, name) for name in ("value", "count", "place", "op", "invoke_ns", "complete_ns")}
        earliest = np.maximum(self.members.first[member], self.sent[0])
        by = order(self.records.of_delivery, own["complete_ns"], own["op"], own["place"])
        flags = {"final": column(table, "final") > 0, "renewed": column(table, "renewed") > 0}
        columns: dict[str, Any] = {"record": self.records.of_delivery, "member": member, **own, **flags}
        columns |= {"earliest": earliest, "sent_type": self.sent[1]}
        return Deliveries(**{name: each[by] for name, each in columns.items()})

    @cached_property
    def deliveries(self) -> Deliveries:
        """The deliveries."""
        return self.all_deliveries.where(~self.all_deliveries.renewed)

    @cached_property
    def acknowledgements(self) -> Acknowledgements:
        """The acknowledgements, each with the earliest and the latest time at which it can have taken effect."""
        table = self._raw[1]
        own = {name: column(table, name) for name in ("kind", "type", "error", "op", "invoke_ns", "complete_ns")}
        member, record = self._rank(column(table, "member")), self.records.of_acknowledgement
        by_poll = column(table, "by_poll") > 0
        begin = np.where(by_poll, self.members.first[member], own.pop("invoke_ns"))
        by = order(record, own["complete_ns"], own["op"], column(table, "place"))
        columns: dict[str, Any] = {"record": record, "member": member, **own, "by_poll": by_poll, "begin_ns": begin}
        return Acknowledgements(**{name: each[by] for name, each in columns.items()})

    def implicit(self, rows: Bools) -> Bools:
        """Returns whether the member of each delivery in `rows` may have accepted it without an acknowledgement.

        In implicit mode, a member's next op accepts what its last poll returned.
        """
        if self.settings.acknowledgement == "explicit":
            return np.zeros(int(rows.sum()), np.bool_)
        last = self.last_invoked
        found: Bools = last[self.deliveries.member[rows]] >= self.deliveries.complete_ns[rows]
        return found

    @cached_property
    def last_invoked(self) -> Ints:
        """For each member: the invocation of its last op, in ns."""
        table = self.small.share_ops
        member = column(table, "member")
        mine = member != EMPTY
        last = np.full(len(self.members.code), -1, np.int64)
        np.maximum.at(last, self._rank(member[mine]), column(table, "invoke_ns")[mine])
        return last

    def witnesses(self, record: Ints, **columns: Any) -> pa.Table:
        """Returns a table of witnesses about records: group, key and offset, and the given columns."""
        records = self.records
        place = {"group": records.group[record], "key": records.key[record], "offset": records.offset[record]}
        return table_of({**place, **columns})

    def none(self) -> pa.Table:
        """Returns a table without witnesses."""
        return table_of({"group": empty(), "key": empty(), "offset": empty(), "ops": int_lists(empty(), empty())})
