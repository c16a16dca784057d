"""The search for the smallest plan that still shows an anomaly. Pure: `shows` runs the plans.

A size is what the search may make smaller: faults, the length of the load, clients, and ops a second. It
takes the first smaller one that still shows the anomaly and goes on from there, until none does or the budget
is gone. Timing differs from run to run, so that a plan shows an anomaly means: in most of some runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

T = TypeVar("T")

SECONDS_MIN: Final = 2.0
FIRST_S: Final = 1.0
SETTLE_S: Final = 2.0  # of load after the last fault has ended


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault at one time. `for_s` None: it is over at once."""

    fault: str
    at_s: float
    for_s: float | None = None

    @property
    def end_s(self) -> float:
        return self.at_s + (self.for_s or 0.0)


@dataclass(frozen=True, slots=True)
class Size:
    """What a plan may have less of.

    rhythm      faults in the rhythm of --nemesis
    injections  faults at their times
    entries     what a written schedule has, by its number and name
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
    """What came of it: the smallest size that shows the anomaly (None: not even the first did), and how many
    sizes were tried. `whole`: nothing smaller was left to try."""

    best: Size | None
    tried: int
    whole: bool


Shows = Callable[[Size], bool | None]


def search(first: Size, written: Size | None, shows: Shows) -> Search:
    """The smallest size, from `first` on.

    written  the same faults at the times at which they came, which can be taken apart one by one; None where
             there is none
    shows    whether most runs of a size show the anomaly; None: the budget is gone
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
    """Smaller sizes, what saves most first."""
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
    """One half, the other half, then all but one."""
    if len(items) > 2:
        half = len(items) // 2
        yield tuple(items[half:])
        yield tuple(items[:half])
    yield from ((*items[:n], *items[n + 1 :]) for n in range(len(items)))


def _earlier(size: Size) -> Size:
    """The first fault soon after the beginning, the others as long after it as before, and then the end."""
    if not size.injections:
        return size
    by = min(injection.at_s for injection in size.injections) - FIRST_S
    if by <= 0:
        return size
    moved = tuple(replace(injection, at_s=round(injection.at_s - by, 1)) for injection in size.injections)
    last = max(injection.end_s for injection in moved)
    seconds = max(round(size.seconds - by, 1), round(last + SETTLE_S, 1), SECONDS_MIN)
    return replace(size, injections=moved, seconds=min(size.seconds, seconds))
