"""Running totals of a test: outcomes, rates, active faults and unread records.

They are updated with every operation of a running test, or with every operation that is read from its history.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.model.op import INVOKE, NEMESIS, OK, Op, sends

SECONDS_MAX: Final = 100_000
KINDS_MAX: Final = 200
FAULTS_KEPT: Final = 30
RECENT_S: Final = 5
WAITING_MAX: Final = 200_000
SECOND_NS: Final = 1_000_000_000
RECORDS: Final = ("send", "poll", "txn")


@dataclass(slots=True)
class Progress:
    """The totals of a run so far. Times are nanoseconds since the run began.

    by_f      f -> outcome -> number of operations
    rates     outcome -> second -> number of completions in this second
    on        name of an active fault -> its name and targets, as text
    since     name of a fault -> time of its latest start
    faults    (time, text) of the latest actions of the nemesis
    """

    end_ns: int = 0
    phase: str = "load"
    by_f: dict[str, Counter[str]] = field(default_factory=dict)
    rates: dict[str, Counter[int]] = field(default_factory=dict)
    on: dict[str, str] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    faults: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=FAULTS_KEPT))

    def add(self, op: Op) -> None:
        """Counts an operation."""
        if op.time_ns > self.end_ns:
            self.end_ns = op.time_ns
        if op.type == INVOKE:
            return
        if op.process == NEMESIS:
            self._nemesis(op)
            return
        counted = self.by_f.get(op.f)
        if counted is None and len(self.by_f) < KINDS_MAX:
            counted = self.by_f[op.f] = Counter()
        if counted is not None:
            counted[op.type] += 1
        second = op.time_ns // SECOND_NS
        if 0 <= second < SECONDS_MAX:
            self.rates.setdefault(op.type, Counter())[second] += 1
        if op.extra.get("final"):
            self.phase = "final polls"

    def _nemesis(self, op: Op) -> None:
        fault, span = str(op.extra.get("fault") or ""), op.extra.get("span")
        if op.f == "heal":
            self.phase = "healing"
        if not fault or op.extra.get("phase") != "complete":
            return
        label = " ".join([fault, *_hit(op.value)])
        if span == "start":
            self.since[fault] = op.time_ns
            self.on[fault] = label
        elif span == "stop":
            self.on.pop(fault, None)
        effect = isinstance(op.value, Mapping) and op.value.get("took_effect") is False
        self.faults.append((op.time_ns, f"{op.f}: {label}{' (no effect)' if effect else ''}"))

    def count(self, outcome: str) -> int:
        """Returns the number of operations that completed with an outcome."""
        return sum(counted[outcome] for counted in list(self.by_f.values()))

    def recent(self, outcome: str = OK, now_ns: int | None = None) -> float:
        """Returns the average number of completions per second in the last RECENT_S complete seconds."""
        last = (self.end_ns if now_ns is None else now_ns) // SECOND_NS
        seconds = self.rates.get(outcome)
        if seconds is None or last < 1:
            return 0.0
        first = max(0, last - RECENT_S)
        return sum(seconds[second] for second in range(first, last)) / (last - first)


def _hit(value: Any) -> list[str]:
    lists = [value.get(name) for name in ("nodes", "clients")] if isinstance(value, Mapping) else []
    return [str(one) for names in lists if isinstance(names, list) for one in names]


@dataclass(slots=True)
class Unread:
    """The acknowledged records of a run that no client has read yet: those above the highest polled offset of their
    key.

    This is an estimate. It does not include records that readers skipped, or records that were acknowledged without an
    offset. The checker finds both.

    waiting  key -> (offset, time of acknowledgement) of each unread record, in order of acknowledgement
    read     key -> highest polled offset
    size     number of unread records
    located  whether any record was acknowledged with an offset; otherwise the estimate says nothing
    full     whether counting has stopped, because more than WAITING_MAX records were unread
    """

    waiting: dict[Any, deque[tuple[int, int]]] = field(default_factory=dict)
    read: dict[Any, int] = field(default_factory=dict)
    size: int = 0
    located: bool = False
    full: bool = False

    def add(self, op: Op) -> None:
        """Updates the unread records with a completed operation."""
        if op.type != OK or op.f not in RECORDS or self.full:
            return
        for key, offset, _ in sends(op):
            if type(offset) is int and offset > self.read.get(key, -1):
                self.waiting.setdefault(key, deque()).append((offset, op.time_ns))
                self.size, self.located = self.size + 1, True
        for mop in op.value:
            if isinstance(mop, list) and len(mop) == 2 and mop[0] == "poll":
                for key, pairs in mop[1]:
                    if pairs and pairs[-1][0] > self.read.get(key, -1):
                        self._polled(key, pairs[-1][0])
        if self.size > WAITING_MAX:
            self.full = True
            self.waiting = {}

    def _polled(self, key: Any, offset: int) -> None:
        self.read[key] = offset
        waiting = self.waiting.pop(key, None)
        if waiting is None:
            return
        unread = deque(one for one in waiting if one[0] > offset)
        self.size -= len(waiting) - len(unread)
        if unread:
            self.waiting[key] = unread

    def lag_ns(self, now_ns: int) -> int | None:
        """Returns how long ago the oldest unread record was acknowledged; None if there is none.

        Any thread may call this method.
        """
        first = []
        for waiting in list(self.waiting.values()):
            try:
                first.append(waiting[0][1])
            except IndexError:  # another thread has just removed the last record of this key
                continue
        return max(0, now_ns - min(first)) if first else None
