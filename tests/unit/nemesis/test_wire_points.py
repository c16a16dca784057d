"""Triggers on frames that pass the wire proxy: when they are armed, and when they fire."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.model.capabilities import Wire, offers
from harness.model.wire_rules import Rule, RuleCounts, Traffic
from harness.plan.schedule import POINTS, When
from nemesis import table
from nemesis.schedule import wire_points
from nemesis.schedule.entry import WIRE, Entry, Trigger
from nemesis.schedule.timing import Timing
from nemesis.schedule.wire_points import WirePoints
from tests.unit.nemesis.test_faults import FakeCluster, env_of

ENDS = Trigger(WIRE, "api=EndTxn;direction=response")


@dataclass
class Wired(FakeCluster):
    """A proxy whose counts the test sets."""

    rules: dict[str, Rule] = field(default_factory=dict)
    counts: dict[str, RuleCounts] = field(default_factory=dict)

    def apply_rules(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        (self.rules[name],) = rules
        self.counts[name] = RuleCounts()

    def rule_counts(self, name: str) -> list[RuleCounts]:
        return [self.counts[name]] if name in self.counts else []

    def clear_rules(self, name: str) -> list[RuleCounts]:
        self.rules.pop(name, None)
        return [self.counts.pop(name)] if name in self.counts else []

    def wire_traffic(self) -> Traffic:
        return Traffic()

    def pass_frame(self, name: str, at_s: float) -> None:
        self.counts[name] = replace(self.counts[name], applied=self.counts[name].applied + 1, last_s=at_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(wire_points.time, "monotonic", lambda: now[0])
    return now


def test_a_trigger_without_a_hold_counts_frames_from_its_time_on(clock: list[float]) -> None:
    wire = Wired()
    assert offers(wire, Wire)
    points = WirePoints(wire, [Entry("kill:n1", at_s=5.0), Entry("kill:n1", at_s=5.0, when=ENDS, times=None)])
    assert points.look() == [] and wire.rules == {}
    clock[0] = 105.0
    assert points.look() == []
    assert wire.rules == {"trigger 2": Rule("watch", ("EndTxn",), "response")}
    wire.pass_frame("trigger 2", 7.5)
    (seen,) = points.look()
    assert (seen.trigger, seen.at_s, seen.holds) == (ENDS, 7.5, "")
    assert points.look() == []
    wire.pass_frame("trigger 2", 8.5)
    assert len(points.look()) == 1
    points.clear()
    assert wire.rules == {}


def test_a_trigger_with_a_hold_holds_one_frame_and_rests_while_its_fault_is_on(clock: list[float]) -> None:
    wire = Wired()
    held = replace(ENDS, hold_s=2.0)
    points = WirePoints(wire, [Entry("kill:n1", when=held, for_s=4.0, rest_s=3.0, times=2)])
    points.look()
    assert wire.rules == {"trigger 1": Rule("hold", ("EndTxn",), "response", count=1, for_s=2.0)}
    for round_begins in (100.0, 120.0):
        clock[0] = round_begins
        points.look()
        wire.pass_frame("trigger 1", 7.5)
        (seen,) = points.look()
        assert seen.holds == "trigger 1"
        wire.clear_rules("trigger 1")  # the fault has started
        clock[0] += 9.9
        assert points.look() == [] and wire.rules == {}
    clock[0] = 200.0
    assert points.look() == [] and wire.rules == {}  # twice is enough


def test_the_held_frame_is_released_once_the_fault_has_started_and_the_delay_is_told() -> None:
    wire = Wired()
    wire.apply_rules("trigger 1", [Rule("hold")], 0)
    (fault,) = table.faults(["kill:n1"], Timing())
    start = fault.rounds.start
    now_s = time.time()
    value: dict[str, Any] = {**start.value, "trigger": "it ended", "point_s": now_s - 0.5, "holds": "trigger 1"}
    done = table.invoke([fault], replace(env_of(wire), effect_s=0.0), start.with_(value=value)).value
    assert wire.rules == {} and done["trigger"] == "it ended"
    assert 500 <= done["after_ms"] < 5000


def test_a_named_point_is_a_trigger() -> None:
    assert When.model_validate(POINTS["prepare-commit"]).trigger() == Trigger(
        WIRE, "api=EndTxn;direction=response;commit=true", hold_s=2.0
    )


@pytest.mark.parametrize(
    "given",
    [{"wire": {"action": "drop"}}, {"wire": {}}, {"wire": {"api": "EndTnx"}}, {"log": "x", "hold": 1}, {"wire": "api"}],
)
def test_what_selects_no_frames_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"which frames|no API named|requires|not valid"):
        When.model_validate(given)
