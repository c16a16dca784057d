"""Chooses combinations so that every pair of values occurs together at least once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations

Combination = tuple[str, ...]
Pair = tuple[tuple[int, str], ...]  # of positions and values


def covering(allowed: Sequence[Combination], seed: int) -> list[Combination]:
    """Combinations out of `allowed` that cover each pair of values that an allowed combination has.

    The greedy algorithm takes the combination with the most pairs that are not covered yet, so a prefix of the result
    covers as much as possible. The seed decides between equally good ones.
    """
    order = sorted(allowed, key=lambda each: sha256(f"{seed} {each}".encode()).digest())
    missing = {pair for each in order for pair in pairs(each)}
    chosen = []
    while missing:
        best = max(order, key=lambda each: len(missing & pairs(each)))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def pairs(combination: Combination) -> frozenset[Pair]:
    """The pairs of values of a combination."""
    return frozenset(combinations(enumerate(combination), 2))
