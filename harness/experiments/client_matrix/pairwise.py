"""Pairwise testing: chooses combinations so that each possible pair of values occurs in one of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations

Combination = tuple[str, ...]
Pair = tuple[tuple[int, str], ...]  # of positions and values


def covering(allowed: Sequence[Combination], seed: int) -> list[Combination]:
    """Chooses enough of the `allowed` combinations to cover every pair of values that occurs in one of them.

    Each step takes the combination with the most pairs that are not covered yet. If several have equally many, the seed
    decides. So the first few combinations already cover most pairs.
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
    """Returns the pairs of values in a combination, each value with its position."""
    return frozenset(combinations(enumerate(combination), 2))
