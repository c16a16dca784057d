"""Which fault comes next, as far as the clock decides it: for a person who watches.

What is told of the plain rhythm follows `timing`: its times run from the end of the op before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.model.fault_and_generator_protocols import Fault
from harness.model.op import Op
from nemesis.schedule.entry import LEADER_CHANGE, LOG, SEGMENT_ROLL, TXN_OPEN, Entry
from nemesis.schedule.timing import Timing

WAITED: Final = {
    LOG: "a line in the log",
    LEADER_CHANGE: "a change of leaders",
    SEGMENT_ROLL: "a new segment",
    TXN_OPEN: "a long transaction",
}


@dataclass(frozen=True, slots=True)
class Coming:
    """at_s: when at the earliest, in seconds of the run; `when`: what it waits for besides, or empty."""

    fault: str
    at_s: float
    when: str = ""


@dataclass(slots=True)
class Turns:
    """Faults that take turns. `due_s`: when the next one begins; None while one is on."""

    faults: Sequence[Fault]
    timing: Timing
    n: int = 0
    due_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        self.due_s = self.timing.first_s

    def see(self, op: Op, fault: str) -> None:
        """Move on with an op of one of them."""
        if all(known.name != fault for known in self.faults):
            return
        self.due_s = None
        if op.extra.get("phase") == "complete" and op.extra.get("span") != "start":
            self.n += 1
            lasts = self._next().rounds.stop is not None
            rest_s = self.timing.interval_s / 2 if lasts else self.timing.interval_s
            self.due_s = op.time_ns / 1e9 + rest_s

    def coming(self) -> Coming | None:
        due_s = self.due_s  # another thread may change it meanwhile
        return None if due_s is None else Coming(self._next().name, due_s)

    def _next(self) -> Fault:
        return self.faults[self.n % len(self.faults)]


@dataclass(slots=True)
class Ahead:
    """The faults of a run.

    groups    those of each rotation of the plain rhythm
    schedule  those that have a rhythm of their own
    limit_s   seconds of load
    """

    groups: Sequence[Sequence[Fault]]
    schedule: Sequence[Entry]
    timing: Timing
    limit_s: float
    turns: tuple[Turns, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.turns = tuple(Turns(group, self.timing) for group in self.groups)

    def see(self, op: Op) -> None:
        """Move on with an op of the nemesis."""
        fault = str(op.extra.get("fault") or "")
        for turns in self.turns:
            turns.see(op, fault)

    def coming(self, now_s: float) -> list[Coming]:
        """What begins before the load ends, the soonest first; last is what waits for something to happen."""
        candidates = [next_fault for turns in self.turns if (next_fault := turns.coming()) is not None]
        candidates += [next_fault for entry in self.schedule if (next_fault := _of_entry(entry, now_s)) is not None]
        left = [next_fault for next_fault in candidates if now_s < self.limit_s and next_fault.at_s < self.limit_s]
        return sorted(left, key=lambda next_fault: (bool(next_fault.when), next_fault.at_s))


def _of_entry(entry: Entry, now_s: float) -> Coming | None:
    """Its next round; of those that a trigger starts nobody knows how many there were."""
    if entry.when is not None:
        return Coming(entry.fault, entry.at_s, WAITED[entry.when.kind])
    every_s = entry.every_s
    n = max(0, math.ceil((now_s - entry.at_s) / every_s)) if every_s else 0
    at_s = entry.at_s + n * (every_s or 0.0)
    over = (
        at_s < now_s
        or (entry.times is not None and n >= entry.times)
        or (entry.until_s is not None and at_s >= entry.until_s)
    )
    return None if over else Coming(entry.fault, at_s)
