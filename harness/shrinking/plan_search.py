"""Reduces a plan step by step while its runs still show an anomaly. Pure: the caller provides the function that runs
plans.

A `Size` contains what can be reduced: the faults, the duration of the load, the number of clients, the ops per second,
and the settings that differ from their defaults. Each step goes to the first smaller size that still shows the anomaly.
The search ends when no smaller size shows it, or when the time budget is used up. Runs of the same plan differ in their
timing, so a plan counts as showing the anomaly if most of its runs do.
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
    """One fault at a fixed time. `for_s` is how long it lasts, in seconds; None if it has no duration."""

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
    entries     (position in the schedule, name of the fault) of each entry of the plan's schedule that is kept
    settings    names of the plan's fields that are kept; the others have their defaults
    """

    rhythm: tuple[str, ...]
    injections: tuple[Injection, ...]
    seconds: float
    clients: int
    rate_hz: float
    entries: tuple[tuple[int, str], ...] = ()
    settings: tuple[str, ...] = ()

    def __str__(self) -> str:
        faults = [*self.rhythm, *(f"{injection.fault} at {injection.at_s:g} s" for injection in self.injections)]
        faults += [f"{name} (entry {n + 1} of the schedule)" for n, name in self.entries]
        rate = f"{self.rate_hz:g} ops/s" if self.rate_hz else "as fast as possible"
        clients = f"{self.clients} client{'' if self.clients == 1 else 's'}"
        settings = f"; with {', '.join(self.settings)}" if self.settings else ""
        return f"{', '.join(faults) or 'no faults'}; {self.seconds:g} s, {clients}, {rate}{settings}"


@dataclass(frozen=True, slots=True)
class Search:
    """The result of the search.

    best   the smallest size that was found to show the anomaly; None if the original size does not show it
    tried  number of sizes that were tried
    whole  whether the search was completed; otherwise the time budget was used up
    """

    best: Size | None
    tried: int
    whole: bool


Shows = Callable[[Size], bool | None]


def search(first: Size, written: Size | None, shows: Shows) -> Search:
    """Reduces `first` step by step until no smaller size shows the anomaly.

    written  `first` with its periodic faults listed one by one, each at the time at which it occurred, so that faults
             can be removed individually; None if they cannot be listed
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
    """Yields the sizes to try after this one. Those that are expected to save the most come first."""
    yield from (replace(size, rhythm=left) for left in _fewer(size.rhythm))
    yield from (replace(size, entries=left) for left in _fewer(size.entries))
    yield from (_earlier(replace(size, injections=left)) for left in _fewer(size.injections))
    yield from (replace(size, settings=left) for left in _fewer(size.settings))
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
    """Yields the second half of the items, the first half, and then the items without each single one in turn."""
    if len(items) > 2:
        half = len(items) // 2
        yield tuple(items[half:])
        yield tuple(items[:half])
    yield from ((*items[:n], *items[n + 1 :]) for n in range(len(items)))


def _earlier(size: Size) -> Size:
    """Moves all faults to an earlier time, so that the first one occurs shortly after the start. Shortens the load
    accordingly."""
    if not size.injections:
        return size
    by = min(injection.at_s for injection in size.injections) - FIRST_S
    if by <= 0:
        return size
    moved = tuple(replace(injection, at_s=round(injection.at_s - by, 1)) for injection in size.injections)
    last = max(injection.end_s for injection in moved)
    seconds = max(round(size.seconds - by, 1), round(last + SETTLE_S, 1), SECONDS_MIN)
    return replace(size, injections=moved, seconds=min(size.seconds, seconds))
