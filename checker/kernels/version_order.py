"""Version orders: per key, which value stands where in the log.

Rule (jepsen.tests.kafka, `version-orders`). Per key, an offset -> values map is made of
  - sends of `ok` ops that came back with an offset,
  - sends of `info` ops with an offset when any write of that op, on any key, was read by an `ok` op,
  - polls of ops of every type: Kafka's consumers are meant to see safe data whatever becomes of the op.
Offsets that hold nothing are squeezed out (transaction markers make such holes). More than one value at an
offset keeps one index, which goes to the smallest value, or under Jepsen's rules to the one that Jepsen
takes. A value at several offsets has the last index.

A *pair* is a (key, value), numbered densely, ascending; a *slot* is a (key, offset) that holds something,
numbered densely over all keys of the bucket, ascending. Within a key, differences of slots are differences
of indices. What this cannot see: a record that nobody polled and whose send told no offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checker.tables.packing import Ints, begins, empty, order


@dataclass(frozen=True, slots=True)
class Versions:
    """The logs of one bucket's keys.

    entry_pair, entry_offset, entry_slot   one row per distinct (key, offset, value), ascending
    slot_key, slot_offset         per slot: key rank, offset
    slot_pick, slot_values        per slot: the pair that has the index, and how many values there are
    key_start    first slot of each key rank, and the number of slots at the end
    index        per pair: slot that counts as its index, -1 when unknown
    first, last  per pair: first and last slot where it stands at all, -1 when nowhere
    """

    entry_pair: Ints
    entry_offset: Ints
    entry_slot: Ints
    slot_key: Ints
    slot_offset: Ints
    slot_pick: Ints
    slot_values: Ints
    key_start: Ints
    index: Ints
    first: Ints
    last: Ints

    def within_key(self, slots: Ints) -> Ints:
        """The index within its key of each slot; -1 stays -1."""
        inside = slots - self.key_start[self.slot_key[np.maximum(slots, 0)]] if len(self.slot_key) else slots
        return np.where(slots < 0, -1, inside)


def _entries(pair: Ints, offset: Ints, pairs: int) -> tuple[Ints, Ints]:
    """Distinct (pair, offset) rows. Nearly every pair stands at one offset: a scatter settles those."""
    where = np.full(pairs, -1, np.int64)
    where[pair] = offset
    odd = where[pair] != offset
    usual = np.flatnonzero(where >= 0)
    odd_pair, odd_offset = pair[odd], offset[odd]
    if len(odd_pair):
        rows = order(odd_pair, odd_offset)
        odd_pair, odd_offset = odd_pair[rows], odd_offset[rows]
        new = begins(odd_pair, odd_offset)
        odd_pair, odd_offset = odd_pair[new], odd_offset[new]
    return np.concatenate([usual, odd_pair]), np.concatenate([where[usual], odd_offset])


def build(
    pair: Ints, offset: Ints, pair_key: Ints, keys: int, preference: Callable[[Ints], Ints] | None = None
) -> Versions:
    """The version orders from rows (pair, offset >= 0) that count.

    `pair_key`: key rank of each pair; `keys`: number of key ranks; `preference`: of several pairs at an
    offset the one with the lowest number has the index, and not the lowest pair.
    """
    pairs = len(pair_key)
    if len(pair) == 0:
        none = np.full(pairs, -1, np.int64)
        zero = np.zeros(keys + 1, np.int64)
        return Versions(*(empty(),) * 7, zero, none, none, none)
    entry_pair, entry_offset = _entries(pair, offset, pairs)
    key = pair_key[entry_pair]
    rows = order(key, entry_offset, entry_pair)
    entry_pair, entry_offset, key = entry_pair[rows], entry_offset[rows], key[rows]
    new = begins(key, entry_offset)
    entry_slot = np.cumsum(new, dtype=np.int64) - 1
    heads = np.flatnonzero(new)
    slot_key, slot_offset, slot_pick = key[heads], entry_offset[heads], entry_pair[heads]
    slot_values = np.diff(np.append(heads, len(entry_pair)))
    if preference is not None and bool((slot_values > 1).any()):
        shared = np.flatnonzero((slot_values > 1)[entry_slot])
        rows = shared[order(entry_slot[shared], preference(entry_pair[shared]))]
        slot_pick[slot_values > 1] = entry_pair[rows[begins(entry_slot[rows])]]
    key_start = np.searchsorted(slot_key, np.arange(keys + 1))
    index, first, last = (np.full(pairs, -1, np.int64) for _ in range(3))
    index[slot_pick] = np.arange(len(slot_pick))  # ascending: the last index wins
    last[entry_pair] = entry_slot
    first[entry_pair[::-1]] = entry_slot[::-1]
    return Versions(
        entry_pair,
        entry_offset,
        entry_slot,
        slot_key,
        slot_offset,
        slot_pick,
        slot_values,
        key_start.astype(np.int64),
        index,
        first,
        last,
    )
