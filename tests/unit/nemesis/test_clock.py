"""Faults on wall clocks: which readings of a server's clock show that it was set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.generator import op
from harness.model.capabilities import Clocks, offers
from nemesis import table
from nemesis.schedule.timing import Timing
from tests.unit.nemesis.test_faults import FakeCluster, env_of

WIDE_S = 40.0  # an answer that took so long shows nothing: the clock is at most 32 s ahead


@dataclass
class Watched(FakeCluster):
    """Servers with clocks.

    wide     how many answers come so late that they show nothing
    obeys    whether setting a clock has an effect
    paused   a server that another fault has paused, so that it tells no time
    answers  how many late answers this server gives first
    asked    servers in the order in which they were asked for the time
    """

    wide: int = 0
    obeys: bool = True
    paused: str = ""
    answers: int = 0
    ahead_s: dict[str, list[float]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def set_clock(self, node: str, ahead_s: float) -> None:
        self.ahead_s[node] = [ahead_s if self.obeys else 0.0]

    def strobe_clock(self, node: str, ahead_s: float, every_s: float) -> None:
        self.ahead_s[node] = [ahead_s if self.obeys else 0.0, 0.0]

    def clock_ahead_s(self, node: str) -> tuple[float, float] | None:
        if node == self.paused and self.asked.count(node) >= self.answers:
            return None
        self.asked.append(node)
        ahead_s = self.ahead_s[node][len(self.asked) % len(self.ahead_s[node])]
        late_s = WIDE_S if len(self.asked) <= self.wide or node == self.paused else 0.0
        return ahead_s - late_s, ahead_s + late_s


def _began(cluster: Watched, name: str) -> dict[str, Any]:
    assert offers(cluster, Clocks)
    (fault,) = table.faults([name], Timing())
    env = replace(env_of(cluster), effect_s=0.0, healthy_s=0.0)
    value = fault.nemesis.invoke(env, op(name.partition(":")[0])).value
    assert isinstance(value, dict)
    return value


VERBS = ("clock-bump", "clock-strobe")


@pytest.mark.parametrize("verb", VERBS)
def test_a_clock_that_cannot_be_set_is_noticed(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert not _began(Watched(obeys=False), f"{verb}:all")["took_effect"]
    assert _began(Watched(), f"{verb}:all")["took_effect"]


def test_a_late_answer_is_asked_for_again() -> None:
    assert _began(Watched(wide=3), "clock-bump:n1")["took_effect"]
    cluster = Watched(wide=99)
    assert not _began(cluster, "clock-bump:n1")["took_effect"] and len(cluster.asked) == 5


@pytest.mark.parametrize("verb", VERBS)
def test_servers_that_tell_the_time_decide(verb: str) -> None:
    for cluster in (Watched(paused="n2"), Watched(paused="n2", answers=1)):
        began = _began(cluster, f"{verb}:all")
        assert began["took_effect"] and not began["seen_ahead_s"]["n2"]
    assert not _began(Watched(paused="n2"), f"{verb}:n2")["took_effect"]
