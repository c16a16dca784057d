"""Version orders: for each key, the order of its values in the log.

For each key, a map offset -> values is built (jepsen.tests.kafka, `version-orders`) from
  - sends of `ok` ops that returned an offset,
  - sends of `info` ops with an offset, if any write of that op, on any key, was read by an `ok` op,
  - polls of ops of every type: consumers must see only safe data, whatever the outcome of the op.
Offsets without a value, such as those of transaction markers, are left out of the order. The *index* of a value is its
position in the order. If an offset has several values, only one of them gets the index: the smallest, or under Jepsen's
rules the one that Jepsen picks. A value at several offsets gets the highest of their indices. A record that was never
polled and whose send returned no offset is not in the order.

A *pair* is a (key, value). A *slot* is a (key, offset) with at least one value. Pairs and slots are numbered
consecutively, in ascending order, over all keys of the bucket. Within a key, the difference of two slots is the
difference of their indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checker.tables.packing import Ints, begins, empty, order


@dataclass(frozen=True, slots=True)
class Versions:
    """The version orders (the order of values in the log) of one bucket's keys.

    A pair is a (key, value), a slot a (key, offset) with at least one value; both are numbered in ascending order.

    entry_pair    per distinct (key, offset, value), ascending: the pair
    entry_offset  per distinct (key, offset, value), ascending: the offset
    entry_slot    per distinct (key, offset, value), ascending: the slot
    slot_key      per slot: its key rank
    slot_offset   per slot: its offset
    slot_pick     per slot: the pair that gets the index
    slot_values   per slot: the number of its values
    key_start     per key rank: its first slot; one more element at the end is the number of slots
    index         per pair: its index in the version order, given as a slot; -1 if it has none
    first         per pair: the first slot that has the pair; -1 if none does
    last          per pair: the last slot that has the pair; -1 if none does
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
        """Returns, for each slot, its position among the slots of its key, counted from 0; -1 for a slot of -1."""
        inside = slots - self.key_start[self.slot_key[np.maximum(slots, 0)]] if len(self.slot_key) else slots
        return np.where(slots < 0, -1, inside)


def _entries(pair: Ints, offset: Ints, pairs: int) -> tuple[Ints, Ints]:
    """Returns the distinct (pair, offset) rows.

    Nearly every pair has a single offset. These pairs are found without sorting: their offsets are written to an array.
    """
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
    """Builds the version orders from rows (pair, offset).

    pair        the (key, value) of each row, as the number of this pair
    offset      the offset of each row, at least 0
    pair_key    for each pair: the rank of its key
    keys        the number of keys
    preference  a function that returns a number for each pair. If several pairs have the same offset, the pair with
                the lowest number gets the index. None: the pair with the smallest value gets it
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
