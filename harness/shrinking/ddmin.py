"""Delta debugging: finds the smallest part of a list for which a predicate still holds. Pure and deterministic.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002), the algorithm ddmin. Only
complements are tested: a single chunk that holds is reached by removing the other chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Budget:
    """How often a predicate may still be evaluated; at 0 the search ends with its current result."""

    left: int

    def spend(self) -> bool:
        """Takes one evaluation from the budget. Returns False if none was left."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True


def minimal(items: Sequence[T], holds: Callable[[Sequence[T]], bool], budget: Budget) -> list[T]:
    """Returns a part of the items, in order, that holds and from which no single item can be removed.

    `holds` must be true of all items together. If the budget is used up, the part holds but may not be minimal.
    """
    kept = list(items)
    pieces = 2
    while kept and budget.left > 0:
        smaller = _without_one(kept, min(pieces, len(kept)), holds, budget)
        if smaller is not None:
            kept, pieces = smaller, max(2, pieces - 1)
        elif pieces >= len(kept):
            break
        else:
            pieces = min(len(kept), 2 * pieces)
    return kept


def _without_one(
    kept: Sequence[T], pieces: int, holds: Callable[[Sequence[T]], bool], budget: Budget
) -> list[T] | None:
    """The items without the first of `pieces` chunks that can be removed; None if no chunk can."""
    cuts = [len(kept) * n // pieces for n in range(pieces + 1)]
    for n in range(pieces):
        left = [*kept[: cuts[n]], *kept[cuts[n + 1] :]]
        if not budget.spend():
            return None
        if holds(left):
            return left
    return None
