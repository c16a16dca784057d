"""Defines `Bucket`, the input of the kernels: the data of one bucket of keys, and what several kernels derive from it.

`checker.tables.columns.Data` has the columns of a bucket's tables. `Bucket` adds the options, and the `info` ops that
committed, which can be found only from all buckets together. An anomaly's `find` takes a `Bucket` and returns a table
of witnesses.

Keys and values are coded as integers. A *key rank* is the index of a key in the ascending array `data.keys`. A *pair*
is the index of a (key, value) in `data.pair_key` and `data.pair_value`. An array "per pair" or "for each value" has one
element for each pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from checker.kernels import version_order
from checker.kernels.clojure_set_order import set_order
from checker.kernels.log_starts_and_ends import Ends, ends_of, rereads_of
from checker.kernels.missing_lines import lines_missing
from checker.tables.columns import Columns, Data, Small
from checker.tables.packing import Bools, Ints, member
from checker.tables.schema import FAIL, INFO, OK, TIME_GOES_BACK
from harness.model.check_options import CheckOptions

T = TypeVar("T")


@dataclass(frozen=True)
class Bucket:
    """One bucket of keys.

    data        the rows of the bucket's own tables
    small       the tables other than ops, sends and polls
    committed   ascending ids of the `info` ops that must have committed, determined from all buckets
    memo        the results cached by `once`
    """

    data: Data
    small: Small
    committed: Ints
    options: CheckOptions
    memo: dict[Callable[..., Any], Any] = field(default_factory=dict)

    def once(self, find: Callable[[Bucket], T]) -> T:
        """Returns `find(self)`. It is computed at the first call; later calls return the same result."""
        if find not in self.memo:
            self.memo[find] = find(self)
        found: T = self.memo[find]
        return found

    @property
    def sends(self) -> Columns:
        return self.data.sends

    @property
    def polls(self) -> Columns:
        return self.data.polls

    @property
    def lines_missing(self) -> bool:
        """Whether lines of the history are missing; always False under Jepsen's rules.

        If lines are missing, an op that is not in the history may still have taken place.
        """
        return not self.options.jepsen_compatible and lines_missing(self.small.meta)

    @cached_property
    def versions(self) -> version_order.Versions:
        """The version orders of this bucket's keys."""
        sends, polls = self.sends, self.polls
        sure = (sends.offset >= 0) & ((sends.type == OK) | self._committed_rows)
        read = polls.offset >= 0
        pair = np.concatenate([sends.pair[sure], polls.pair[read]])
        offset = np.concatenate([sends.offset[sure], polls.offset[read]])
        preference = (lambda pairs: set_order(self.values(pairs))) if self.options.jepsen_compatible else None
        return version_order.build(pair, offset, self.data.pair_key, len(self.data.keys), preference)

    @property
    def _may_need_commit(self) -> bool:
        """Whether consumers may be unable to see the records of an `info` op before the whole op is committed.

        This holds for transactions with read_committed consumers, and always under Jepsen's rules. If the settings are
        unknown, the result is True.
        """
        settings = self.options.settings
        if self.options.jepsen_compatible:
            return True
        return settings.txn is not False and settings.isolation_level != "read_uncommitted"

    @cached_property
    def _may_stand_alone(self) -> Bools:
        """For each value: whether a consumer may see only some of the records of the op that sent the value.

        This is possible without transactions. It is also possible with read_uncommitted, because the records of an
        aborted transaction stay in the log. If the settings are unknown, the result is True.
        """
        settings = self.options.settings
        if self.options.jepsen_compatible:
            return np.zeros(len(self.data.pair_key), np.bool_)
        if settings.txn is False or settings.isolation_level != "read_committed":
            return np.ones(len(self.data.pair_key), np.bool_)
        if settings.txn:
            return np.zeros(len(self.data.pair_key), np.bool_)
        return ~self.data.writer_txn

    @cached_property
    def _committed_rows(self) -> Bools:
        """For each send: whether it belongs to an `info` op whose acknowledged records are in the log."""
        of_info = self.sends.type == INFO
        result: Bools = of_info & (member(self.sends.op, self.committed) if self._may_need_commit else True)
        return result

    @cached_property
    def _existence(self) -> tuple[Bools, Bools]:
        """For each value: (whether its record must exist in the log, whether it may have to exist).

        The records of an `ok` op must exist. For an `info` op there are two rules. If its records exist only together
        (in a transaction), all of them must exist if one of them was read, because this proves the commit. If its
        records exist independently, each must exist if it was itself acknowledged or read. If the settings do not say
        which rule applies, a record must exist if both rules say so, and it may have to exist if at least one rule says
        so.
        """
        data = self.data
        done, unknown = data.writer_type == OK, data.writer_type == INFO
        if not bool(unknown.any()):
            return done, done
        by_itself = data.polled_ok | (data.writer_offset >= 0)
        if not self._may_need_commit:
            alone = done | (unknown & by_itself)
            return alone, alone
        proven = member(data.writer, self.committed)
        either = self._may_stand_alone
        return done | (unknown & proven & (by_itself | ~either)), done | (unknown & (proven | (by_itself & either)))

    @property
    def must_exist(self) -> Bools:
        """For each value: whether its record must exist in the log, whatever the values of unknown settings are."""
        return self._existence[0]

    @property
    def may_have_to_exist(self) -> Bools:
        """For each value: whether its record must exist in the log for some possible values of unknown settings."""
        return self._existence[1]

    @cached_property
    def ends(self) -> Ends:
        """The start and end of each log, and whether the log was read to the end."""
        found = ends_of(self.small.ends, self.small.deletions)
        if self.options.jepsen_compatible:
            return found
        if bool((found.emptied_ns >= 0).any()):
            found = replace(found, log_start=self._emptied(found))
        if self.options.settings.auto_offset_reset in (None, "latest") and bool(found.complete.any()):
            found = replace(found, complete=found.complete & ~self._begun_at_the_end(found))
        return found

    def _emptied(self, found: Ends) -> Ints:
        """Returns the log start for each key of `found`, raised if the log was deleted up to its end.

        Such a deletion removes every acknowledged record that was sent before it completed, so the log starts after
        these records.
        """
        sends, keys = self.sends, self.data.keys
        emptied_ns = found.at(keys, found.emptied_ns, -1)[sends.key]
        rows = (sends.offset >= 0) & (sends.invoke_ns < emptied_ns)
        begin = np.zeros(len(keys), np.int64)
        np.maximum.at(begin, sends.key[rows], sends.offset[rows] + 1)
        log_start = found.log_start.copy()
        place = np.searchsorted(found.keys, keys[begin > 0])
        log_start[place] = np.maximum(log_start[place], begin[begin > 0])
        return log_start

    def _begun_at_the_end(self, found: Ends) -> Bools:
        """Returns, for each key of `found`, whether a consumer at the end of the log may have started there.

        Two conditions must hold: some values that must exist were not read, and no consumer reread the log from its
        beginning. For these keys, a position at the end of the log does not prove that the log was read.
        """
        again = rereads_of(self.small.ends, self.small.assigns).key
        left = self.must_exist & ~self.data.polled_ok
        unread = self.data.keys[np.unique(self.data.pair_key[left])]
        result: Bools = np.isin(found.keys, unread) & ~np.isin(found.keys, again)
        return result

    @property
    def times_in_order(self) -> bool:
        """Whether the times in the history never decrease, so that the times of ops can be compared."""
        return not any(TIME_GOES_BACK in doubt for doubt in self.small.meta["doubts"])

    @cached_property
    def failed(self) -> Bools:
        """For each value: whether an op of type `fail` sent it."""
        aborted = np.zeros(len(self.data.pair_key), np.bool_)
        aborted[self.sends.pair[self.sends.type == FAIL]] = True
        return aborted

    def key_ranks(self, codes: Ints) -> Ints:
        """Returns each key's index in `data.keys`; -1 for keys that are in other buckets or have no records."""
        keys = self.data.keys
        if len(keys) == 0:
            return np.full(len(codes), -1, np.int64)
        place = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        return np.where(keys[place] == codes, place, -1)

    def key_codes(self, pairs: Ints) -> Ints:
        """Returns the coded key of each (key, value) pair."""
        return self.data.keys[self.data.pair_key[pairs]]

    def values(self, pairs: Ints) -> Ints:
        """Returns the coded value of each (key, value) pair."""
        return self.data.pair_value[pairs]
