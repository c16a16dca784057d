"""Searches for the smallest plan that still shows an anomaly. Pure: the function `shows` runs the plans.

A size consists of what the search can reduce: the faults, the duration of the load, the number of clients, and the
ops per second. From a size, the search continues with the first smaller one that still shows the anomaly. It ends
when no smaller size shows the anomaly, or when the time budget is used up. As runs of the same plan differ in their
timing, a plan shows an anomaly if most of its runs do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

T = TypeVar("T")

SECONDS_MIN: Final = 2.0
FIRST_S: Final = 1.0
SETTLE_S: Final = 2.0  # load after the end of the last fault


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault at one time. `for_s` is its duration in seconds; None if the fault has no duration."""

    fault: str
    at_s: float
    for_s: float | None = None

    @property
    def end_s(self) -> float:
        return self.at_s + (self.for_s or 0.0)


@dataclass(frozen=True, slots=True)
class Size:
    """The parts of a plan that can be reduced.

    rhythm      faults of --nemesis, which are repeated at the plan's interval
    injections  faults at fixed times
    seconds     duration of the load
    entries     (number, name of the fault) of entries of the plan's own schedule
    """

    rhythm: tuple[str, ...]
    injections: tuple[Injection, ...]
    seconds: float
    clients: int
    rate_hz: float
    entries: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        faults = [*self.rhythm, *(f"{injection.fault} at {injection.at_s:g} s" for injection in self.injections)]
        faults += [f"{name} (entry {n + 1} of the schedule)" for n, name in self.entries]
        rate = f"{self.rate_hz:g} ops/s" if self.rate_hz else "as fast as possible"
        clients = f"{self.clients} client{'' if self.clients == 1 else 's'}"
        return f"{', '.join(faults) or 'no faults'}; {self.seconds:g} s, {clients}, {rate}"


@dataclass(frozen=True, slots=True)
class Search:
    """The result of the search.

    best   the smallest size that shows the anomaly; None if the first size does not show it
    tried  number of sizes that were tried
    whole  whether the search was completed; otherwise the time budget was used up
    """

    best: Size | None
    tried: int
    whole: bool


Shows = Callable[[Size], bool | None]


def search(first: Size, written: Size | None, shows: Shows) -> Search:
    """Finds the smallest size that shows the anomaly, starting from `first`.

    written  a size with the same faults, each at the time at which it occurred, so that single ones can be removed;
             None if there is no such size
    shows    returns whether most runs of a size show the anomaly; None if the time budget is used up
    """
    answers: dict[Size, bool | None] = {}

    def answer(size: Size) -> bool | None:
        if size not in answers:
            answers[size] = shows(size)
        return answers[size]

    best = first
    if not answer(first):
        return Search(None, len(answers), answers[first] is not None)
    if written is not None:
        shown = answer(written)
        if shown is None:
            return Search(best, len(answers), False)
        best = written if shown else best
    while True:
        for size in smaller(best):
            shown = answer(size)
            if shown is None:
                return Search(best, len(answers), False)
            if shown:
                best = size
                break
        else:
            return Search(best, len(answers), True)


def smaller(size: Size) -> Iterator[Size]:
    """Yields smaller sizes, those with the largest savings first."""
    yield from (replace(size, rhythm=left) for left in _fewer(size.rhythm))
    yield from (replace(size, entries=left) for left in _fewer(size.entries))
    yield from (_earlier(replace(size, injections=left)) for left in _fewer(size.injections))
    earlier = _earlier(size)
    if earlier != size:
        yield earlier
    for share in (0.5, 0.75):
        seconds = round(size.seconds * share, 1)
        if seconds >= SECONDS_MIN and all(injection.end_s <= seconds for injection in size.injections):
            yield replace(size, seconds=seconds)
    for share in (0.25, 0.5):
        if int(size.clients * share) >= 1:
            yield replace(size, clients=int(size.clients * share))
    for share in (0.25, 0.5):
        if size.rate_hz * share >= 1:
            yield replace(size, rate_hz=float(int(size.rate_hz * share)))


def _fewer(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yields the second half of the items, the first half, and then, for each item, all the others."""
    if len(items) > 2:
        half = len(items) // 2
        yield tuple(items[half:])
        yield tuple(items[:half])
    yield from ((*items[:n], *items[n + 1 :]) for n in range(len(items)))


def _earlier(size: Size) -> Size:
    """Moves the first fault close to the start and the others by the same time, and shortens the load accordingly."""
    if not size.injections:
        return size
    by = min(injection.at_s for injection in size.injections) - FIRST_S
    if by <= 0:
        return size
    moved = tuple(replace(injection, at_s=round(injection.at_s - by, 1)) for injection in size.injections)
    last = max(injection.end_s for injection in moved)
    seconds = max(round(size.seconds - by, 1), round(last + SETTLE_S, 1), SECONDS_MIN)
    return replace(size, injections=moved, seconds=min(size.seconds, seconds))
