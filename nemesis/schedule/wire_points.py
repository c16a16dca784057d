"""Triggers on requests and responses that pass the wire proxy: what fires them, and when they are armed.

A trigger without a hold only counts frames as they pass. A trigger with a hold keeps the frame that fires it, until the
fault has started, for at most `hold_s` seconds, so the fault meets the exact point of the protocol. An armed trigger
holds only the first frame that matches. It is not armed while its fault is on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.model.capabilities import Wire
from harness.model.wire_rules import HOLD, WATCH, RuleCounts, rule_in
from nemesis.schedule.entry import WIRE, Entry
from nemesis.schedule.rounds import Seen

MARGIN_S: Final = 1.0  # after a hold, until the trigger is armed again


@dataclass(slots=True)
class Point:
    """The trigger of one entry of the schedule.

    name     name of the trigger's rule in the proxy
    next_s   time of time.monotonic() from which the trigger is to be armed
    fired    how often it fired
    applied  to how many frames its rule had been applied at the last look
    """

    name: str
    entry: Entry
    next_s: float
    armed: bool = False
    fired: int = 0
    applied: int = 0


@dataclass(slots=True)
class WirePoints:
    """The wire triggers of a schedule. `look` arms them, and returns those that have fired."""

    wire: Wire
    schedule: Sequence[Entry]
    points: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        now_s = time.monotonic()
        self.points = [
            Point(f"trigger {number}", entry, now_s + entry.at_s)
            for number, entry in enumerate(self.schedule, 1)
            if entry.when is not None and entry.when.kind == WIRE
        ]

    def look(self) -> list[Seen]:
        """Arms the triggers whose time has come. Returns what fired since the last look. Raises ClusterTrouble."""
        found = []
        for point in self.points:
            if not point.armed:
                self._arm(point)
            elif counts := self.wire.rule_counts(point.name):
                found += self._fired(point, counts[0])
        return found

    def _arm(self, point: Point) -> None:
        entry, when = point.entry, point.entry.when
        over = entry.times is not None and point.fired >= entry.times
        if over or when is None or time.monotonic() < point.next_s:
            return
        rule = rule_in(f"action={WATCH};{when.pattern}")
        if when.hold_s:
            rule = replace(rule, action=HOLD, for_s=when.hold_s, count=1)
        self.wire.apply_rules(point.name, [rule], 0)
        point.armed, point.applied = True, 0

    def _fired(self, point: Point, counts: RuleCounts) -> list[Seen]:
        entry, when = point.entry, point.entry.when
        if when is None or counts.applied <= point.applied:
            return []
        point.applied = counts.applied
        point.fired += 1
        if when.hold_s:
            point.armed = False
            on_s = entry.for_s if entry.for_s is not None else 0.0
            point.next_s = time.monotonic() + when.hold_s + on_s + entry.rest_s + MARGIN_S
        text = f"the wire proxy saw {when.pattern}{', and held it' if when.hold_s else ''}"
        return [Seen(when, text, counts.last_s, point.name if when.hold_s else "")]

    def clear(self) -> None:
        """Disarms all triggers, and forwards the frames that they hold."""
        for point in self.points:
            self.wire.clear_rules(point.name)
