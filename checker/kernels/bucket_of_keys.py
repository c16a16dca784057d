"""One bucket of keys, as the kernels see it.

`checker.tables.columns.Data` holds the columns of a bucket's tables; `Bucket` adds what must be known from other
buckets (the `info` ops that committed) and the options. An anomaly's `find` takes a Bucket and gives a table of
witnesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from checker.kernels import version_order
from checker.kernels.clojure_set_order import set_order
from checker.kernels.log_starts_and_ends import Ends, ends_of
from checker.tables.columns import Columns, Data, Small
from checker.tables.packing import Bools, Ints, member
from checker.tables.schema import FAIL, INFO, OK
from harness.model.check_options import CheckOptions

T = TypeVar("T")


@dataclass(frozen=True)
class Bucket:
    """What an anomaly's `find` gets.

    committed   ids of the `info` ops that must have committed, over all buckets; ascending
    memo        what `once` found
    """

    data: Data
    small: Small
    committed: Ints
    options: CheckOptions
    memo: dict[Callable[..., Any], Any] = field(default_factory=dict)

    def once(self, find: Callable[[Bucket], T]) -> T:
        """What `find` says of this bucket, worked out once."""
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
    def _whole_ops(self) -> bool:
        """Whether one visible record proves the others of its op: in a transaction, and by Jepsen's rule."""
        return self.options.jepsen_compatible or self.options.settings.txn is not False

    @cached_property
    def _committed_rows(self) -> Bools:
        """Sends of `info` ops that must have happened; outside transactions those that were acknowledged."""
        of_info = self.sends.type == INFO
        result: Bools = of_info & (member(self.sends.op, self.committed) if self._whole_ops else True)
        return result

    @cached_property
    def must_exist(self) -> Bools:
        """Per pair: its writer must have committed; outside transactions: it was acknowledged, or read."""
        data = self.data
        if self._whole_ops:
            sure = member(data.writer, self.committed)
        else:
            sure = data.polled_ok | (data.writer_offset >= 0)
        result: Bools = (data.writer_type == OK) | ((data.writer_type == INFO) & sure)
        return result

    @cached_property
    def ends(self) -> Ends:
        """Where the logs begin and end, and which were read to the end."""
        found = ends_of(self.small.ends, self.small.deletions)
        if not bool((found.emptied_ns >= 0).any()):
            return found
        # A log that was deleted up to its end begins behind what had been sent before.
        sends, keys = self.sends, self.data.keys
        emptied_ns = found.at(keys, found.emptied_ns, -1)[sends.key]
        rows = (sends.offset >= 0) & (sends.invoke_ns < emptied_ns)
        begin = np.zeros(len(keys), np.int64)
        np.maximum.at(begin, sends.key[rows], sends.offset[rows] + 1)
        log_start = found.log_start.copy()
        place = np.searchsorted(found.keys, keys[begin > 0])
        log_start[place] = np.maximum(log_start[place], begin[begin > 0])
        return replace(found, log_start=log_start)

    @cached_property
    def failed(self) -> Bools:
        """Per pair: a `fail`ed op sent it."""
        aborted = np.zeros(len(self.data.pair_key), np.bool_)
        aborted[self.sends.pair[self.sends.type == FAIL]] = True
        return aborted

    def key_ranks(self, codes: Ints) -> Ints:
        """Key rank of each key code; -1 for keys of other buckets or of no record."""
        keys = self.data.keys
        if len(keys) == 0:
            return np.full(len(codes), -1, np.int64)
        place = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        return np.where(keys[place] == codes, place, -1)

    def key_codes(self, pairs: Ints) -> Ints:
        """Key code of each pair."""
        return self.data.keys[self.data.pair_key[pairs]]

    def values(self, pairs: Ints) -> Ints:
        """Value code of each pair."""
        return self.data.pair_value[pairs]
