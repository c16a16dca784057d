"""Draws the plans of a swarm's rounds. Pure: the seed and the number of a round determine its plan.

Each round first leaves out each feature with a probability of one half, and then draws its plan from the others: one
entry of each axis, or none, and some of the faults. A feature can hide another one: under constant kills, few
transactions ever commit. In a round without it, the other one can show. Source: Groce, Zhang, Eide, Chen, Regehr,
"Swarm Testing", ISSTA 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.experiments.spec import over
from harness.experiments.swarm.spec import Swarm
from harness.model.randomness import Draw
from nemesis import table
from nemesis.schedule.timing import Timing

HALF: Final = 0.5
Possible = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Round:
    """The plan of one round.

    plan      fields of the plan, with its seed
    features  texts of the features that the plan has
    """

    number: int
    plan: Mapping[str, Any]
    features: tuple[str, ...]


def drawn(swarm: Swarm, seed: int, number: int, possible: Possible, share: float = HALF) -> Round:
    """Returns the plan of a round. A feature that is not possible with those drawn before it is left out.

    possible  whether the fields are those of a valid plan
    share     probability with which each feature may be in the round; 1: all features may be in every round
    """
    draw = Draw.of(seed, "swarm", number)
    plan: dict[str, Any] = {**swarm.plan, "seed": draw.below(1 << 31)}
    features = []
    for axis in draw.shuffled(list(swarm.axes)):
        entry = draw.choice([{}, *(entry for entry in swarm.axes[axis] if draw.random() < share)])
        if entry and possible(changed := over(plan, entry)):
            plan = changed
            features.append(", ".join(f"{field} {_text(value)}" for field, value in entry.items()))
    names = draw.shuffled([name for name in swarm.faults if draw.random() < share])
    lines: list[Mapping[str, Any]] = []
    for name in names[: draw.between(1, swarm.faults_max)] if swarm.faults_max else ():
        line = entry_of_schedule(name, draw)
        if possible({**plan, "schedule": [*lines, line]}):
            lines.append(line)
            features.append(name)
    return Round(number, {**plan, "schedule": lines} if lines else plan, tuple(features))


def entry_of_schedule(fault: str, draw: Draw) -> dict[str, Any]:
    """Returns the entry of a schedule that repeats a fault at an interval of its own.

    The election of another leader takes 3 to 6 s, so some faults end before it and others after it.
    """
    (made,) = table.faults([fault], Timing())
    on_s = draw.between(2, 8)
    entry = {"fault": fault, "at": draw.between(1, 8), "every": on_s + draw.between(2, 6), "jitter": "1s"}
    return entry | ({"for": f"{on_s}s"} if made.rounds.stop is not None else {})


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
