"""Delta debugging: reduces a list to a small part for which a predicate still holds. Pure and deterministic.

This is the algorithm ddmin of Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002). It
divides the list into chunks and removes one chunk after another. The paper also tests each chunk alone. This is omitted
here: removing the other chunks one by one has the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Budget:
    """The number of times that the predicate may still be evaluated. When it is used up, the search ends."""

    left: int

    def spend(self) -> bool:
        """Uses one evaluation. Returns False if none was left."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True


def minimal(items: Sequence[T], holds: Callable[[Sequence[T]], bool], budget: Budget) -> list[T]:
    """Returns some of the items, in their order, for which `holds` is true.

    If any single one of the returned items is removed, `holds` is false, unless the search ended because the budget was
    used up. `holds` must be true for all items together.
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
    """Divides the items into `pieces` chunks and removes the first chunk that is not needed for `holds`. Returns the
    others.

    Returns None if every chunk is needed, or if the budget is used up.
    """
    cuts = [len(kept) * n // pieces for n in range(pieces + 1)]
    for n in range(pieces):
        left = [*kept[: cuts[n]], *kept[cuts[n + 1] :]]
        if not budget.spend():
            return None
        if holds(left):
            return left
    return None
