"""Computes the coordinates of two drawings: the rates of a run in progress, and an experiment's results over time."""

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
    """A rectangle. x and y are the distances of its upper left corner from the left and upper edges, in pixels."""

    outcome: str
    x: float
    y: float
    wide: float
    high: float


@dataclass(frozen=True, slots=True)
class Rates:
    """A drawing of stacked bars.

    top      completions per second at the upper edge
    seconds  time at the right edge
    """

    bars: Sequence[Bar]
    top: float
    seconds: int


def rates(counted: Mapping[str, Mapping[int, int]], end_s: float) -> Rates:
    """Returns a drawing of the completions per second, stacked by outcome, from the start of the run to `end_s`.

    counted  outcome -> second -> number of completions
    """
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
    """One result of an experiment as a point: which share of its runs met an expectation.

    y          vertical position of the share, in pixels from the top
    low, high  vertical positions of the lower and the upper end of its confidence interval
    """

    x: float
    y: float
    low: float
    high: float
    agrees: bool
    label: str


def shares(line: Line) -> list[Point]:
    """Returns the points of a drawing that shows how often an expectation was met over time.

    These are the last POINTS_MAX results, the oldest first.
    """
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
