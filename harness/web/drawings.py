"""Coordinates of the small drawings: rates while a run goes on, shares over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.web.past_results import Line

WIDE: Final = 960
HIGH: Final = 120
BARS_MAX: Final = 240
OUTCOMES: Final = ("ok", "info", "fail")
POINTS_MAX: Final = 60
POINT_WIDE: Final = 22
LINE_HIGH: Final = 44


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle, in pixels from the upper left corner."""

    outcome: str
    x: float
    y: float
    wide: float
    high: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Stacked bars; `top`: completions a second at the upper edge; `seconds`: at the right one."""

    bars: Sequence[Bar]
    top: float
    seconds: int


def rates(counted: Mapping[str, Mapping[int, int]], end_s: float) -> Rates:
    """Completions a second by outcome, over the time so far."""
    seconds = max(int(end_s) + 1, 10)
    each = -(-seconds // BARS_MAX)
    cells = -(-seconds // each)
    sums = {outcome: [0.0] * cells for outcome in OUTCOMES}
    for outcome in OUTCOMES:
        for second, count in counted.get(outcome, {}).items():
            if second // each < cells:
                sums[outcome][second // each] += count / each
    top = max((sum(sums[outcome][at] for outcome in OUTCOMES) for at in range(cells)), default=0.0) or 1.0
    bars = []
    for at in range(cells):
        y = float(HIGH)
        for outcome in OUTCOMES:
            high = sums[outcome][at] / top * HIGH
            if high:
                y -= high
                bars.append(Bar(outcome, at * WIDE / cells, y, WIDE / cells, high))
    return Rates(bars, top, seconds)


@dataclass(frozen=True, slots=True)
class Point:
    """A share at a time: where it is, and where its interval begins and ends."""

    x: float
    y: float
    low: float
    high: float
    agrees: bool
    label: str


def shares(line: Line) -> list[Point]:
    """The last POINTS_MAX points of an expectation over time, from left to right."""
    found = []
    for at, (when, _, share) in enumerate(line.points[-POINTS_MAX:]):
        low, high = share.interval
        part = share.k / share.n if share.n else 0.5
        label = f"{when}: {share.k} of {share.n}"
        x = 12.0 + at * POINT_WIDE
        found.append(Point(x, _height(part), _height(low), _height(high), share.agrees, label))
    return found


def _height(share: float) -> float:
    return 4 + (LINE_HIGH - 8) * (1 - share)
