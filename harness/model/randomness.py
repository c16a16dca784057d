"""Random numbers addressed by (seed, stream, n), with SplitMix64.

Generators of ops are pure, so they cannot share a stateful random number generator. Each op has its own source of
random numbers, derived from the run's seed, the name of a stream and a counter. How many numbers one op uses therefore
does not affect the numbers of other ops. Source of the mixing function: Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_GAMMA: Final = 0x9E3779B97F4A7C15


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@lru_cache(maxsize=1024)
def _root(seed: int, stream: str) -> int:
    return _mix((seed * _GAMMA + zlib.crc32(stream.encode()) * 0xD1B54A32D192ED03) & _MASK)


class Draw:
    """A short sequence of random values. It is stateful: create a new one for each use."""

    __slots__ = ("_state",)

    def __init__(self, state: int) -> None:
        self._state = state

    @classmethod
    def of(cls, seed: int, stream: str, n: int) -> Draw:
        return cls(_mix((_root(seed, stream) + n * 0xA0761D6478BD642F) & _MASK))

    def bits(self) -> int:
        """Returns 64 random bits."""
        self._state = (self._state + _GAMMA) & _MASK
        return _mix(self._state)

    def random(self) -> float:
        """Returns a uniform float in [0, 1)."""
        return (self.bits() >> 11) * 2.0**-53

    def below(self, n: int) -> int:
        """Returns a uniform integer in 0..n-1, with a negligible bias, because n is far below 2**64."""
        return (self.bits() * n) >> 64

    def between(self, low: int, high: int) -> int:
        """Returns a uniform integer in low..high, both inclusive."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        """Returns a random item. Raises IndexError if there are no items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Returns a random permutation of the items."""
        listed = list(items)
        for i in range(len(listed) - 1, 0, -1):
            j = self.below(i + 1)
            listed[i], listed[j] = listed[j], listed[i]
        return listed
