"""Clojure's hash function and the order in which its hash sets are iterated.

If Jepsen has to pick one of several values, it puts them into such a set and takes the first one.

Source: jepsen.tests.kafka (`version-orders`, `lost-write-cases`, `precommitted-read-cases`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from checker.tables.packing import Ints

Words: TypeAlias = npt.NDArray[np.uint32]
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_WORD: Final = 0xFFFFFFFF
# The results of `set_order` are smaller than two to the power of this.
SET_ORDER_BITS: Final = 35


def _turned(word: Words, by: int) -> Words:
    return (word << np.uint32(by)) | (word >> np.uint32(32 - by))


def _mixed(state: Words, word: Words) -> Words:
    word = _turned(word * _C1, 15) * _C2
    return _turned(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def hashes(values: Ints) -> Words:
    """Returns Clojure's hash of each integer: Murmur3 (32 bits) of the integer's two halves. The hash of 0 is 0."""
    low, high = (values & _WORD).astype(np.uint32), ((values >> 32) & _WORD).astype(np.uint32)
    state = _mixed(_mixed(np.zeros(len(values), np.uint32), low), high) ^ np.uint32(8)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.where(values == 0, np.uint32(0), state ^ (state >> np.uint32(16)))


def set_order(values: Ints) -> Ints:
    """Returns a sort key for each integer. Sorted by these keys, the integers are in the order of a Clojure hash set.

    The set is a tree. Each of its levels branches on five bits of the hash, beginning with the lowest bits.
    """
    state = hashes(values)
    digits = [((state >> np.uint32(5 * place)) & np.uint32(31)).astype(np.int64) for place in range(7)]
    return sum((digit << (30 - 5 * place) for place, digit in enumerate(digits)), np.zeros(len(values), np.int64))
