"""Predicts which fault starts next, for the progress display.

Faults with the default timing are predicted in the same way as the module `timing` starts them: each wait counts from
the completion of the previous op.
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

TRIGGER_NAMES: Final = {
    LOG: "a line in the log",
    LEADER_CHANGE: "a change of leaders",
    SEGMENT_ROLL: "a new segment",
    TXN_OPEN: "a long transaction",
}


@dataclass(frozen=True, slots=True)
class Coming:
    """A fault that is expected to start, and when.

    at_s  the earliest start, in seconds since the start of the run
    when  the trigger that the fault also waits for; empty if there is none
    """

    fault: str
    at_s: float
    when: str = ""


@dataclass(slots=True)
class Turns:
    """A group of faults that take turns.

    n      number of completed rounds
    due_s  time at which the next fault starts, in seconds since the start of the run; None while a fault is on
    """

    faults: Sequence[Fault]
    timing: Timing
    n: int = 0
    due_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        self.due_s = self.timing.first_s

    def see(self, op: Op, fault: str) -> None:
        """Updates the state with an op of the fault named `fault`. Does nothing if this fault is not in the group."""
        if all(member.name != fault for member in self.faults):
            return
        self.due_s = None
        if op.extra.get("phase") == "complete" and op.extra.get("span") != "start":
            self.n += 1
            lasts = self._next().rounds.stop is not None
            rest_s = self.timing.interval_s / 2 if lasts else self.timing.interval_s
            self.due_s = op.time_ns / 1e9 + rest_s

    def coming(self) -> Coming | None:
        due_s = self.due_s  # another thread may change it in between
        return None if due_s is None else Coming(self._next().name, due_s)

    def _next(self) -> Fault:
        return self.faults[self.n % len(self.faults)]


@dataclass(slots=True)
class Ahead:
    """The upcoming faults of a run.

    groups    the faults with the default timing; those in one group take turns
    schedule  the faults with times or triggers of their own (`--schedule`)
    limit_s   the time limit of the load, in seconds
    """

    groups: Sequence[Sequence[Fault]]
    schedule: Sequence[Entry]
    timing: Timing
    limit_s: float
    turns: tuple[Turns, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.turns = tuple(Turns(group, self.timing) for group in self.groups)

    def see(self, op: Op) -> None:
        """Updates the state with a nemesis op."""
        fault = str(op.extra.get("fault") or "")
        for turns in self.turns:
            turns.see(op, fault)

    def coming(self, now_s: float) -> list[Coming]:
        """Returns the faults that will start before the load ends, in order of time.

        Faults that wait for a trigger come last.
        """
        candidates = [next_fault for turns in self.turns if (next_fault := turns.coming()) is not None]
        candidates += [next_fault for entry in self.schedule if (next_fault := _of_entry(entry, now_s)) is not None]
        in_time = [coming for coming in candidates if now_s < self.limit_s and coming.at_s < self.limit_s]
        return sorted(in_time, key=lambda coming: (bool(coming.when), coming.at_s))


def _of_entry(entry: Entry, now_s: float) -> Coming | None:
    """Returns when the next round of an entry starts; None if there are no more rounds.

    An entry with a trigger always has a next round, because its past rounds are not counted here.
    """
    if entry.when is not None:
        return Coming(entry.fault, entry.at_s, TRIGGER_NAMES[entry.when.kind])
    every_s = entry.every_s
    n = max(0, math.ceil((now_s - entry.at_s) / every_s)) if every_s else 0
    at_s = entry.at_s + n * (every_s or 0.0)
    over = (
        at_s < now_s
        or (entry.times is not None and n >= entry.times)
        or (entry.until_s is not None and at_s >= entry.until_s)
    )
    return None if over else Coming(entry.fault, at_s)
