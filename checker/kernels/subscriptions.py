"""The effect of assign, subscribe and rebalances on a process's position in a log.

The next value that a process polls from a key is compared with the last value that it polled from the key, its
*reference*. A completed (`ok` or `info`) assign or subscribe keeps the references of the keys that it lists, and drops
all other references (jepsen.tests.kafka, `poll-skip+nonmonotonic-cases`). The rules of this project (native rules) drop
all references in two more cases: an assign seeks to the beginning, or a process changes between assign and subscribe,
since a group member starts at the committed offset. A recorded rebalance of the key also explains a jump.

The functions here only count events. Suppose that a process had n assigns and subscribes between two ops, and m of them
list a key. The key's reference was dropped if and only if m is less than n. The counts come from binary searches in
sorted packed integers, without a loop over ops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.tables.columns import Small
from checker.tables.packing import Bools, Ints, begins, empty, order
from checker.tables.schema import FAIL


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


@dataclass(frozen=True, slots=True)
class _Events:
    """Sorted (group, op) events, to count those of a group in a range of ops. A group is, for example, a process."""

    packed: Ints
    bits: int

    @classmethod
    def of(cls, group: Ints, op: Ints, bits: int) -> _Events:
        return cls(np.unique((group << bits) | op), bits)

    def between(self, group: Ints, after: Ints, until: Ints) -> Ints:
        """Returns the number of events of each group with after < op <= until; 0 for a negative group."""
        base = np.maximum(group, 0) << self.bits
        low = np.searchsorted(self.packed, base + after, side="right")
        high = np.searchsorted(self.packed, base + until, side="right")
        return np.where(group < 0, 0, high - low)


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The assigns, subscribes and rebalances of one bucket's keys."""

    processes: Ints
    assigns: _Events  # by process
    listings: _Events  # by (key, process)
    resets: _Events  # by process: ops that drop every reference under native rules
    rebalances: _Events  # by (key, process)

    def _process(self, process: Ints) -> Ints:
        if len(self.processes) == 0:
            return np.full(len(process), -1, np.int64)
        place = np.minimum(np.searchsorted(self.processes, process), len(self.processes) - 1)
        return np.where(self.processes[place] == process, place, -1)

    def _keyed(self, key: Ints, process: Ints) -> Ints:
        rank = self._process(process)
        return np.where((rank < 0) | (key < 0), -1, key * len(self.processes) + rank)

    def dropped(self, process: Ints, key: Ints, before: Ints, op: Ints) -> Bools:
        """Returns whether the process dropped the key after the op `before`, up to and including `op`."""
        every = self.assigns.between(self._process(process), before, op)
        listed = self.listings.between(self._keyed(key, process), before, op)
        result: Bools = every != listed
        return result

    def reset(self, process: Ints, before: Ints, op: Ints) -> Bools:
        """Returns whether the process dropped all its references after the op `before`, up to and including `op`.

        A reference is the last value that the process read of a key. Jepsen's rules do not use this.
        """
        return self.resets.between(self._process(process), before, op) > 0

    def rebalanced(self, process: Ints, key: Ints, before: Ints, op: Ints) -> Bools:
        """Returns whether the process recorded a rebalance of the key in the op `before`, in `op`, or between them."""
        return self.rebalances.between(self._keyed(key, process), before - 1, op) > 0


def _resets(op: Ints, process: Ints, how: Ints, seek: Ints) -> tuple[Ints, Ints]:
    """Returns (process, op) of each op that drops all references of the process under the harness's own rules.

    These are assigns that seek to the beginning (`seek`), and changes between assign and subscribe (`how`).
    """
    rows = order(process, op)
    process, op, how, seek = process[rows], op[rows], how[rows], seek[rows]
    heads = begins(process, op)
    process, op, how, seek = process[heads], op[heads], how[heads], seek[heads]
    changed = ~begins(process)
    changed[1:] &= how[1:] != how[:-1]
    drop = changed | (seek > 0)
    return process[drop], op[drop]


def subscriptions(bucket: Bucket) -> Subscriptions:
    """Selects from the small tables the events that concern the keys of this bucket."""
    small: Small = bucket.small
    assigns = small.assigns
    done = _column(assigns, "type") != FAIL
    op, process, key, how, seek = (_column(assigns, name)[done] for name in ("op", "process", "key", "how", "seek"))
    moved_op, moved_process, moved_key = (_column(small.rebalances, name) for name in ("op", "process", "key"))
    processes = np.unique(np.concatenate([process, moved_process])) if len(process) + len(moved_process) else empty()
    top = max(
        [
            0,
            *(int(column.max()) for column in (op, moved_op, bucket.polls.op, bucket.sends.op) if len(column)),
        ]
    )
    bits = (top + 1).bit_length()
    place = np.searchsorted(processes, process)
    moved_place = np.searchsorted(processes, moved_process)
    rank, moved_rank = bucket.key_ranks(key), bucket.key_ranks(moved_key)
    reset_process, reset_op = _resets(op, process, how, seek)
    return Subscriptions(
        processes,
        _Events.of(place, op, bits),
        _Events.of((rank * len(processes) + place)[rank >= 0], op[rank >= 0], bits),
        _Events.of(np.searchsorted(processes, reset_process), reset_op, bits),
        _Events.of((moved_rank * len(processes) + moved_place)[moved_rank >= 0], moved_op[moved_rank >= 0], bits),
    )
