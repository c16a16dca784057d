"""Delta debugging: finds a small part of a list for which a predicate still holds. Pure and deterministic.

Source: the algorithm ddmin of Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002). The
list is divided into chunks, and one chunk at a time is removed. Unlike in the paper, a chunk alone is not tested,
because removing the other chunks one by one has the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Budget:
    """The number of times that the predicate may still be evaluated. At 0 the search ends with its current result."""

    left: int

    def spend(self) -> bool:
        """Reduces the budget by one evaluation. Returns False if it was already 0."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True


def minimal(items: Sequence[T], holds: Callable[[Sequence[T]], bool], budget: Budget) -> list[T]:
    """Returns a part of the items, in order, for which `holds` is true. Without any one of them it is false.

    `holds` must be true of all items together. If the budget is used up, single items may still be removable.
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
    """Returns the items without one of `pieces` chunks: the first chunk whose removal leaves `holds` true.

    Returns None if there is no such chunk, or if the budget is used up.
    """
    cuts = [len(kept) * n // pieces for n in range(pieces + 1)]
    for n in range(pieces):
        left = [*kept[: cuts[n]], *kept[cuts[n + 1] :]]
        if not budget.spend():
            return None
        if holds(left):
            return left
    return None
