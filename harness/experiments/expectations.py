"""The expectations of an experiment, and whether the results of many runs agree with them. Pure functions.

shows     anomaly -> the share of runs that must show it (1: all of them)
any_of    anomalies; every run must show at least one of them
never     anomalies that no run may show; "invalid" stands for an invalid verdict
figures   dotted path in the statistics -> a comparison ("== 10", ">= 1") that must hold in every run
refused   a regular expression: the cluster must fail to start, with an error message that matches it
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadInput

ANY: Final = "invalid"
Z: Final = 1.959964  # 95%
COMPARISON: Final = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the runs of a case must show. See the beginning of this module for the fields."""

    shows: Mapping[str, float] = field(default_factory=dict)
    never: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    any_of: tuple[str, ...] = ()

    @property
    def anomalies(self) -> tuple[str, ...]:
        """All anomalies in `shows` and `any_of`."""
        return (*self.shows, *(name for name in self.any_of if name not in self.shows))

    @property
    def texts(self) -> list[str]:
        """A description of each expectation. `seen` and `rates` return one item for each, in the same order."""
        shown = [name if rate == 1 else f"{name} in {rate:.0%} of the runs" for name, rate in self.shows.items()]
        shown += [" or ".join(self.any_of)] if self.any_of else []
        never = [f"no {name}" if name != ANY else "nothing invalid" for name in self.never]
        figures = [f"{path} {comparison}" for path, comparison in self.figures.items()]
        return [*shown, *never, *figures, *([f"refused: {self.refused}"] if self.refused else [])]

    def seen(self, result: Result) -> list[bool]:
        """Returns, for each expectation in `texts`, whether the run met it."""
        bad = {anomaly.name for anomaly in result.anomalies if anomaly.bad}
        every = [name in bad for name in self.shows]
        every += [not bad.isdisjoint(self.any_of)] if self.any_of else []
        every += [result.valid != "invalid" if name == ANY else name not in bad for name in self.never]
        every += [holds(figure(result.statistics, path), text) for path, text in self.figures.items()]
        return [*every, *([False] if self.refused else [])]

    def seen_refusal(self, error: str) -> list[bool]:
        """Returns, for a run whose cluster did not start, whether it met each expectation in `texts`.

        It can meet only the expectation `refused`. `error` is the message with which the cluster failed to start.
        """
        none = [False] * (len(self.texts) - bool(self.refused))
        return [*none, *([bool(re.search(self.refused, error))] if self.refused else [])]

    @property
    def rates(self) -> list[float]:
        """For each expectation in `texts`, the share of runs that must meet it."""
        return [*self.shows.values(), *[1.0] * (len(self.texts) - len(self.shows))]


@dataclass(frozen=True, slots=True)
class Seen:
    """One expectation, and how many runs met it.

    text      description of the expectation
    rate      the share of runs that must meet it
    k, n      k of n runs met it
    interval  the 95% confidence interval of k / n
    """

    text: str
    rate: float
    k: int
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.k, self.n)

    @property
    def agrees(self) -> bool:
        """Whether the results agree with the expectation.

        If `rate` is 1, every run must meet the expectation. Otherwise, `rate` must not be above the interval's upper
        end.
        """
        if self.n == 0:
            return False
        return self.k == self.n if self.rate == 1 else self.interval[1] >= self.rate


def over(expectation: Expectation, runs: Sequence[Sequence[bool]]) -> list[Seen]:
    """Returns how many runs met each expectation. `runs` contains the result of `Expectation.seen` for each run."""
    return [
        Seen(text, rate, sum(run[at] for run in runs), len(runs))
        for at, (text, rate) in enumerate(zip(expectation.texts, expectation.rates, strict=True))
    ]


def wilson(k: int, n: int) -> tuple[float, float]:
    """Returns the 95% score interval (Wilson 1927) for the probability of a success, after k successes in n trials."""
    if n == 0:
        return 0.0, 1.0
    share, spread = k / n, Z * Z / n
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def figure(statistics: Mapping[str, Any], path: str) -> float:
    """Returns the number at a dotted path in nested statistics, such as "delivery.lost"; 0 if there is no number."""
    found: Any = statistics
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, int | float) else 0.0


def holds(value: float, comparison: str) -> bool:
    """Returns whether a value satisfies a comparison such as ">= 1". Raises BadInput if the comparison is malformed."""
    matched = COMPARISON.fullmatch(comparison)
    if not matched:
        raise BadInput(f"{comparison!r} is not a comparison with a number, such as '== 10' or '>= 1'")
    bound = float(matched[2])
    return {
        "==": value == bound,
        "!=": value != bound,
        "<=": value <= bound,
        ">=": value >= bound,
        "<": value < bound,
        ">": value > bound,
    }[matched[1]]
