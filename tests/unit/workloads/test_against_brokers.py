"""Brokers beside the model, the brokers being the simulated log with a clock and a mind of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.sim.log_model.action_types import Action, Outcome
from harness.sim.log_model.actions_as_text import parse, program
from harness.sim.log_model.model import SimulatedLog
from harness.sim.log_model.partition import View
from harness.sim.log_model.records import LogSettings
from workloads.log_model import draw_broker_actions
from workloads.log_model.against_brokers import UNCLEANED, BrokerSession, Remote, Seen, run, tier
from workloads.log_model.session import Divergence
from workloads.log_model.shrink import shrink

AT_ONCE = replace(draw_broker_actions.BROKERS, deadline_s=0.0, again_s=0.0)
STEPS = 1500
WEIGHTS = draw_broker_actions.WEIGHTS | {"hold": 1}


class Fake:
    """Satisfies Brokers: high watermark, retention and, if it `cleans`, the cleaner come by themselves."""

    def __init__(self, settings: LogSettings, bugs: frozenset[str] = frozenset(), cleans: bool = True) -> None:
        self._log, self._cleans = SimulatedLog(settings, bugs), cleans
        self._held: set[int] = set()

    def apply(self, action: Action, now: int) -> tuple[Outcome, int]:
        self._log.apply(Action("tick", {"ms": now - self._log.now}))
        if action.f == "restart":
            action = Action("restart", {"how": "clean"})
        if action.f == "clean" and not self._cleans:
            return Outcome(), 0
        done = self._log.apply(action)
        if action.f == "hold":
            self._held = {action.arg("partition")}
        elif action.f == "advance":
            self._held = set()
        for at in set(range(len(self._log.views()))) - self._held:
            self._log.apply(Action("advance", {"partition": at, "at": 1 << 40}))
        return done, 0

    def seen(self) -> list[Seen]:
        self._log.apply(Action("check"))
        if self._log.settings.tiered:
            tier(self._log)
        return [
            Seen(
                view.start,
                view.high_watermark,
                view.last_stable,
                view.end,
                (tuple(one.base for one in view.local),),
                _remote(view) if self._log.settings.tiered else None,
            )
            for view in self._log.views()
        ]


def _remote(view: View) -> Remote:
    copies = tuple((one.base, one.end, one.size, one.max_timestamp) for one in view.remote)
    return Remote(view.local_start, copies[-1][1] - 1 if copies else None, copies)


def found(
    bugs: frozenset[str], seed: int = 1, steps: int = STEPS, target: draw_broker_actions.Target = AT_ONCE
) -> Divergence | None:
    for topic in draw_broker_actions.topics(seed, steps, target, WEIGHTS):
        fake = Fake(topic.settings, bugs)
        if (divergence := run(topic.settings, topic.actions, fake, frozenset(), AT_ONCE)) is not None:
            return divergence
    return None


def test_an_honest_log_never_diverges() -> None:
    assert [found(frozenset(), seed) for seed in (1, 2, 3)] == [None] * 3


TIERED = replace(AT_ONCE, kinds=draw_broker_actions.TIERED_KINDS)


def test_an_honest_tiered_log_never_diverges() -> None:
    assert [found(frozenset(), seed, target=TIERED) for seed in (1, 2, 3)] == [None] * 3


class Behind(Fake):
    """A follower that has what its leader deleted for two looks more."""

    had: tuple[int, ...] = (0,)
    late = 0

    def seen(self) -> list[Seen]:
        one = super().seen()[0]
        assert one.bases is not None
        now = one.bases[0]
        self.late = self.late + 1 if now != self.had else 0
        if self.late > 2:
            self.had, self.late = now, 0
        return [one._replace(bases=(now, self.had))]


def test_a_follower_that_still_has_what_its_leader_deleted_is_waited_for() -> None:
    settings = LogSettings(segment_bytes=200, local_retention_bytes=0, tiered=True)
    fake = Behind(settings)
    session = BrokerSession(settings, fake, replace(TIERED, deadline_s=5.0))
    for _ in range(3):
        assert session.step(Action("append", {"records": [["k", "v", 0], ["k", "w", 0]]})) is None
        leader, follower = fake.seen()[0].bases or ()
        assert leader == follower and leader[0] > 0


@pytest.mark.parametrize("bug", ["tiered-above-hw", "start-goes-back", "aborted-served"])
def test_what_tiered_topics_are_asked_shows_a_bug(bug: str) -> None:
    assert found(frozenset({bug}), target=TIERED) is not None


@pytest.mark.parametrize(
    ("lost", "what"),
    [
        ({"copies": ()}, "copied segments"),
        ({"local_start": 0}, "local log start"),
        ({"last": 0}, "the last copied offset"),
    ],
)
def test_a_tier_that_is_not_as_it_must_be_is_found(lost: dict[str, object], what: str) -> None:
    class Wrong(Fake):
        def seen(self) -> list[Seen]:
            return [
                one._replace(remote=one.remote._replace(**lost)) for one in super().seen() if one.remote is not None
            ]

    settings = LogSettings(segment_bytes=200, local_retention_bytes=0, tiered=True)
    actions = [Action("append", {"records": [["k", "v" * 60, 0], ["k", "w" * 30, 0]]})] * 3
    divergence = run(settings, actions, Wrong(settings), frozenset(), AT_ONCE)
    assert divergence is not None and divergence.what == what
    assert run(settings, actions, Fake(settings), frozenset(), AT_ONCE) is None


BUGS = {
    "aborted-served": "records of aborted transactions are read under read_committed",
    "retry-appended": "outcome of retry",
    "start-goes-back": "log start never goes back",
    "small-limit-empty": "outcome of read",
    "compaction-loses-latest": "",
    "active-rolled-wrong": "",
    "retention-not-idempotent": "",
}


@pytest.mark.parametrize("bug", BUGS)
def test_what_brokers_are_asked_shows_a_bug(bug: str) -> None:
    divergence = found(frozenset({bug}))
    assert divergence is not None and (not BUGS[bug] or divergence.what == BUGS[bug])


def test_a_divergence_is_shrunk_by_replay_and_told_as_a_program() -> None:
    bugs = frozenset({"aborted-served"})

    def replay(settings: LogSettings, actions: object) -> Divergence | None:
        return run(settings, tuple(actions), Fake(settings, bugs), frozenset(), AT_ONCE)  # type: ignore[arg-type]

    topic = next(one for one in draw_broker_actions.topics(1, STEPS, AT_ONCE) if replay(one.settings, one.actions))
    shrunk = shrink(replay, topic.settings, topic.actions)
    assert shrunk is not None and len(shrunk.actions) <= 4
    again = replay(*parse(program(shrunk.settings, shrunk.actions), "text"))
    assert again is not None and again.what == shrunk.found.what


def test_a_cleaner_that_never_comes_is_found() -> None:
    settings = LogSettings(segment_bytes=200, cleanup="compact")
    one = Action("append", {"records": [["k", "v" * 60, 0]]})
    actions = [one, one, one, Action("clean")]
    divergence = run(settings, actions, Fake(settings, cleans=False), frozenset(), AT_ONCE)
    assert divergence is not None and divergence.what == UNCLEANED
    assert run(settings, actions, Fake(settings), frozenset(), AT_ONCE) is None


def test_what_is_passed_over_does_not_stop_the_search() -> None:
    settings, bugs = LogSettings(), frozenset({"retry-appended"})
    actions = [
        Action("append", {"producer": 0, "records": [["k", "v", 0]]}),
        Action("retry", {"producer": 0}),
        Action("read-all"),
    ]
    session = BrokerSession(settings, Fake(settings, bugs), AT_ONCE, frozenset({"outcome of retry"}))
    assert [session.step(action) for action in actions] == [None] * 3
    assert len(session.got.value[0]) == 1  # the retry was left out


def test_a_high_watermark_that_moves_while_it_is_held_is_found() -> None:
    class Loose(Fake):
        def apply(self, action: Action, now: int) -> tuple[Outcome, int]:
            return super().apply(Action("read-all") if action.f == "hold" else action, now)

    one = Action("append", {"records": [["k", "v", 0]]})
    actions = [one, Action("hold"), one, Action("read-all")]
    passed = run(LogSettings(), actions, Fake(LogSettings()), frozenset(), AT_ONCE)
    divergence = run(LogSettings(), actions, Loose(LogSettings()), frozenset(), AT_ONCE)
    assert passed is None and divergence is not None and divergence.what == "high watermark"


def test_formats_before_2_are_only_for_brokers_that_take_them() -> None:
    def magics(target: draw_broker_actions.Target) -> set[int]:
        topics = draw_broker_actions.topics(1, 500, target)
        return {one.arg("magic") for topic in topics for one in topic.actions if one.f == "append"}

    old = replace(AT_ONCE, old=True)
    assert magics(old) == {0, 1, 2} and magics(AT_ONCE) == {2}
    settings, append = LogSettings(), Action("append", {"records": [["k", "v", 0]], "magic": 0})
    assert BrokerSession(settings, Fake(settings), AT_ONCE).skips(append)
    assert run(settings, [append, Action("read-all")], Fake(settings), frozenset(), old) is None


def test_a_seed_is_one_list_with_few_restarts() -> None:
    first = list(draw_broker_actions.topics(7, 500, weights=WEIGHTS))
    assert (
        first == list(draw_broker_actions.topics(7, 500, weights=WEIGHTS)) != list(draw_broker_actions.topics(8, 500))
    )
    actions = [action for topic in first for action in topic.actions]
    assert len(actions) == 500 and 0 < sum(action.f == "restart" for action in actions) <= 8
    assert {action.f for action in actions} == {*draw_broker_actions.WEIGHTS, "advance"} - {"power"}
    cut = [one for topic in draw_broker_actions.topics(7, 500, weights=WEIGHTS | {"power": 9}) for one in topic.actions]
    restarts = [one.arg("how") for one in cut if one.f == "restart"]
    assert "power" in restarts and len(restarts) <= 8
    mocked = [
        action.f for topic in draw_broker_actions.topics(7, 500, draw_broker_actions.MOCK) for action in topic.actions
    ]
    assert set(mocked) <= draw_broker_actions.MOCK.actions
    with pytest.raises(BadInput, match="--weights"):
        draw_broker_actions.parse_weights("tick=3")


@pytest.mark.parametrize(("known", "end", "start"), [(False, "", 0), (True, "", 2), (False, "commit", 2)])
def test_log_start_does_not_go_into_a_batch_that_a_transaction_holds_back(known: bool, end: str, start: int) -> None:
    one = Action("append", {"producer": 2, "txn": True, "records": [["k", "v", 0]]})
    ends = [Action(end, {"producer": 2})] if end else []
    two = Action("append", {"records": [["a", "v", 0], ["b", "v", 0]]})
    actions = [one, two, *ends, Action("delete-records", {"at": 2})]
    settings = LogSettings()
    session = BrokerSession(settings, Fake(settings), replace(AT_ONCE, known=known))
    assert [session.step(action) for action in actions] == [None] * len(actions)
    assert session.model.views()[0].start == start
