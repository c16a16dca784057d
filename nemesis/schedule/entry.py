"""The entries of a fault schedule: which fault, when, for how long, and how often. Pure data.

All times are in seconds since the start of the load. In each round of an entry, the fault starts and usually stops
again. Rounds are started by the clock (`at`, `every`) or by a trigger (`when`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from harness.model.fault_and_generator_protocols import Fault

LOG: Final = "log"
LEADER_CHANGE: Final = "leader-change"
SEGMENT_ROLL: Final = "segment-roll"
TXN_OPEN: Final = "txn-open"
TRUNCATION: Final = "truncation"
WIRE: Final = "wire"

WINDOWS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """The event that a fault waits for.

    kind     one of this module's constants LOG, LEADER_CHANGE, SEGMENT_ROLL, TXN_OPEN, TRUNCATION, WIRE
    pattern  LOG: a regular expression, searched in each new line of the servers' logs
             WIRE: which requests or responses fire the trigger: the text of a wire rule without its action
    node     LOG: the node whose log is searched; empty: the logs of all nodes
    hold_s   WIRE: how long the frame that fires the trigger is held at most, until the fault has started; 0: not held
    open_s   TXN_OPEN: the trigger fires when a transaction has been open for this many seconds
    """

    kind: str
    pattern: str = ""
    node: str = ""
    open_s: float = 0.0
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a schedule.

    fault     canonical name of the fault, such as "kill:leader"
    at_s      start of the first round; with a trigger: the time before which the trigger is ignored
    every_s   time from the start of one round to the start of the next; None: only one round
    jitter_s  each round starts later by a random time of up to this length
    for_s     time from the invocation of the fault's start op to that of its stop op; None: the fault stays on until
              the end of the load, or has no duration
    until_s   no round starts at or after this time; None: rounds start until the end of the load
    times     maximum number of rounds; None: no limit
    when      the trigger that starts each round; None: the clock starts the rounds
    rest_s    how long the trigger is ignored after the end of a round
    """

    fault: str
    at_s: float = 0.0
    every_s: float | None = None
    jitter_s: float = 0.0
    for_s: float | None = None
    until_s: float | None = None
    times: int | None = 1
    when: Trigger | None = None
    rest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a schedule.

    entry  index of the entry, from 0
    key    the key of the entry that is wrong, such as "at"
    text   what is wrong, for the user
    """

    entry: int
    key: str
    text: str


def windows(entry: Entry, limit_s: float) -> Iterator[tuple[float, float]]:
    """Yields (earliest start, latest end) in seconds, for each round that is started by the clock.

    The load ends at `limit_s`.
    """
    n, at_s = 0, entry.at_s
    stop_s = limit_s if entry.until_s is None else min(limit_s, entry.until_s)
    while at_s < stop_s and (entry.times is None or n < entry.times):
        yield at_s, limit_s if entry.for_s is None else at_s + entry.jitter_s + entry.for_s
        if entry.every_s is None:
            return
        n, at_s = n + 1, at_s + entry.every_s


def problems(entries: Sequence[Entry], faults: Mapping[str, Fault], limit_s: float) -> list[Problem]:
    """Checks the times of the entries, and returns the problems found. `limit_s`: length of the load, in seconds."""
    found = [problem for n, entry in enumerate(entries) for problem in _alone(n, entry, faults, limit_s)]
    return found or _together(entries, faults, limit_s)


def _alone(n: int, entry: Entry, faults: Mapping[str, Fault], limit_s: float) -> Iterator[Problem]:
    lasts = faults[entry.fault].rounds.stop is not None
    again = entry.every_s is not None or (entry.when is not None and entry.times != 1)
    if entry.at_s >= limit_s:
        yield Problem(n, "at", f"{entry.at_s:g} s is not before the end of the load, at {limit_s:g} s")
    if entry.until_s is not None and entry.until_s <= entry.at_s:
        yield Problem(n, "until", f"{entry.until_s:g} s is not after the first round, at {entry.at_s:g} s")
    if not lasts and entry.for_s is not None:
        yield Problem(n, "for", f"{entry.fault} has no duration: remove `for`")
    if lasts and again and entry.for_s is None:
        yield Problem(n, "fault", f"{entry.fault} is repeated: set how long each round lasts (`for`)")
    on_s = (entry.for_s or 0.0) + entry.jitter_s
    if entry.every_s is not None and entry.every_s < on_s:
        yield Problem(
            n,
            "every",
            f"{entry.every_s:g} s: it would start again before it ends, after {on_s:g} s (`for` + `jitter`)",
        )


def _together(entries: Sequence[Entry], faults: Mapping[str, Fault], limit_s: float) -> list[Problem]:
    """Returns a problem for each pair of entries with the same fault whose rounds overlap.

    Entries with a trigger are not checked: their rounds wait until the fault is off.
    """
    found = []
    for n, entry in enumerate(entries):
        if entry.when is not None or faults[entry.fault].rounds.stop is None:
            continue
        for earlier in range(n):
            other = entries[earlier]
            if other.fault == entry.fault and other.when is None:
                clash = _clash(entry, other, limit_s)
                if clash is not None:
                    text = f"{entry.fault} is already on at {clash:g} s, because of entry {earlier + 1}"
                    found.append(Problem(n, "fault", text))
    return found


def _clash(entry_a: Entry, entry_b: Entry, limit_s: float) -> float | None:
    """Returns the first time at which the fault is on because of both entries; None if there is no such time."""
    rows = [
        (*window, number)
        for number, entry in enumerate((entry_a, entry_b))
        for window in islice(windows(entry, limit_s), WINDOWS_MAX)
    ]
    ends = [0.0, 0.0]
    for begin, end, number in sorted(rows):
        if begin < ends[1 - number]:
            return begin
        ends[number] = max(ends[number], end)
    return None
