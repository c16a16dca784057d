"""Delta debugging: the smallest part of a list for which a test still holds. Pure and deterministic.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002), the algorithm ddmin,
with complements only: a single chunk that holds is what is left after the others have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Budget:
    """How often a test may still be asked; at 0 the search ends with what it has."""

    left: int

    def spend(self) -> bool:
        """Whether there was one left."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True


def minimal(items: Sequence[T], holds: Callable[[Sequence[T]], bool], budget: Budget) -> list[T]:
    """A part of the items, in their order, that holds and of which no single item can be left out.

    `holds` must be true of all of them. With the budget used up, the part holds, and may not be minimal.
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
    """What is left when the first of so many pieces that can go has gone; None when none can."""
    cuts = [len(kept) * n // pieces for n in range(pieces + 1)]
    for n in range(pieces):
        left = [*kept[: cuts[n]], *kept[cuts[n + 1] :]]
        if not budget.spend():
            return None
        if holds(left):
            return left
    return None
