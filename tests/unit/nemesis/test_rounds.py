"""Periods and triggers of a schedule, in simulated time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.generator import Clients, Fn, TimeLimit, any_, op
from harness.model.fault_and_generator_protocols import PENDING, Context, Fault, Generator
from harness.model.op import INFO, INVOKE, NEMESIS, OK, Op
from nemesis import table
from nemesis.schedule import rounds
from nemesis.schedule.entry import LOG, TXN_OPEN, Entry, Trigger, problems
from nemesis.schedule.timing import Timing
from tests.unit.harness.simulated_time import simulate

SECOND = 1_000_000_000
LINE = Trigger(LOG, "elected")


def chosen(schedule: Sequence[Entry], *more: str) -> tuple[Fault, ...]:
    return table.faults(tuple(dict.fromkeys([*more, *(entry.fault for entry in schedule)])), Timing())


def emitted(schedule: Sequence[Entry], limit_s: int = 60, latency_s: float = 0.1, seed: int = 1) -> list[Op]:
    """The ops that the nemesis gets."""
    generator = table.under_load(chosen(schedule), schedule)
    assert generator is not None
    load = any_(generator, Clients(Fn(lambda ctx, n: op("a"))))
    events = simulate(TimeLimit(load, limit_s * SECOND), concurrency=1, seed=seed, latency_ns=int(latency_s * SECOND))
    return [event for event in events if event.process == NEMESIS and event.extra["phase"] == "invoke"]


def times(ops: Sequence[Op]) -> list[tuple[str, float]]:
    return [(each.f, round(each.time_ns / SECOND, 1)) for each in ops]


def test_once_at_a_time_for_a_while() -> None:
    assert times(emitted([Entry("kill:leader", at_s=10, for_s=6)])) == [("kill", 10.0), ("restart", 16.0)]


def test_a_fault_that_is_over_at_once_comes_in_its_period_and_only_so_often() -> None:
    schedule = [Entry("kill:client", at_s=10, every_s=10, times=3)]
    assert times(emitted(schedule)) == [("kill", 10.0), ("kill", 20.0), ("kill", 30.0)]


def test_several_are_on_at_the_same_time_and_keep_their_own_rhythm() -> None:
    schedule = [
        Entry("kill:leader", at_s=5, every_s=20, for_s=10, times=None, until_s=40),
        Entry("isolate:follower", at_s=8, for_s=4),
        Entry("pause:client", at_s=9, every_s=3, for_s=1, times=2),
    ]
    assert times(emitted(schedule)) == [
        ("kill", 5.0),
        ("isolate", 8.0),
        ("pause", 9.0),
        ("resume", 10.0),
        ("heal-network", 12.0),
        ("pause", 12.0),
        ("resume", 13.0),
        ("restart", 15.0),
        ("kill", 25.0),
        ("restart", 35.0),
    ]


def test_jitter_comes_from_the_seed_and_stays_within_its_bound() -> None:
    schedule = [Entry("kill:client", at_s=5, every_s=10, jitter_s=4, times=5)]
    first, again, other = (times(emitted(schedule, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
    late = [at - (5 + 10 * n) for n, (_, at) in enumerate(first)]
    assert all(0 <= each <= 4.1 for each in late) and len(set(late)) == 5


def test_an_effect_may_take_until_the_end_of_the_fault_which_does_not_wait() -> None:
    start, stop = emitted([Entry("kill:leader", at_s=1, for_s=6)])
    assert start.extra["effect_s"] == 6
    assert stop.extra["healthy_s"] == 0


def test_a_round_that_is_still_on_makes_the_next_one_wait_and_what_is_missed_is_skipped() -> None:
    schedule = [Entry("kill:leader", at_s=0, every_s=4, for_s=2, times=None)]
    starts = [at for f, at in times(emitted(schedule, limit_s=40, latency_s=5)) if f == "kill"]
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(starts))


def test_without_an_end_it_is_on_until_the_load_ends() -> None:
    assert times(emitted([Entry("kill:leader", at_s=10)])) == [("kill", 10.0)]


# --- triggers ---------------------------------------------------------------------------------------------


def context(at_s: float, busy: frozenset[str] = frozenset()) -> Context:
    return Context(int(at_s * SECOND), (0,), (0,), not busy, 1, busy)


def rhythm_of(entry: Entry) -> rounds.Rhythm:
    (fault,) = table.faults([entry.fault], Timing())
    return rounds.Rhythm(entry, fault, 0)


def next_op(generator: Generator, at_s: float) -> Op | None:
    """The op at a time; None if there is none."""
    answer = generator.op(context(at_s))
    return answer[0] if answer is not None and isinstance(answer[0], Op) else None


def after(generator: Generator, at_s: float) -> Generator:
    answer = generator.op(context(at_s))
    assert answer is not None
    return answer[1]


def test_a_notice_sets_it_off_once_and_the_start_says_why() -> None:
    waiting = rhythm_of(Entry("kill:leader", at_s=2, for_s=3, when=LINE))
    assert waiting.op(context(5)) == (PENDING, waiting)
    early = waiting.update(context(1), rounds.notice(rounds.Seen(LINE, "n1: elected")))
    assert next_op(early, 5) is None
    other = waiting.update(context(5), rounds.notice(rounds.Seen(replace(LINE, node="n2"), "n2: elected")))
    assert next_op(other, 5) is None
    fired = waiting.update(context(5), rounds.notice(rounds.Seen(LINE, "n1: elected")))
    start = next_op(fired, 5)
    assert start is not None
    assert start.value == {"target": "leader", "trigger": "n1: elected"}
    on = after(fired, 5)
    assert next_op(on.update(context(6), rounds.notice(rounds.Seen(LINE, "again"))), 7.9) is None
    stop = next_op(on, 8)
    assert stop is not None and stop.f == "restart"
    assert after(on, 8).op(context(9)) is None


def test_between_rounds_it_rests() -> None:
    entry = Entry("kill:client", when=LINE, times=2, rest_s=10)
    once = after(rhythm_of(entry).update(context(1), rounds.notice(rounds.Seen(LINE, "a"))), 1)
    assert next_op(once.update(context(10), rounds.notice(rounds.Seen(LINE, "b"))), 12) is None
    assert next_op(once.update(context(11), rounds.notice(rounds.Seen(LINE, "c"))), 12) is not None


def test_an_open_transaction_sets_it_off() -> None:
    entry = Entry("kill:leader", for_s=3, when=Trigger(TXN_OPEN, open_s=0.5))
    waiting: Generator = rhythm_of(entry)
    quick = Op(0, SECOND, 0, INVOKE, "txn", [])
    for event in (quick, quick.with_(type=OK), quick.with_(process=1, time_ns=2 * SECOND)):
        waiting = waiting.update(context(2), event)
    assert next_op(waiting, 2.4) is None
    start = next_op(waiting, 2.5)
    assert start is not None
    assert start.value["trigger"] == "process 1 had a transaction open for 500 ms"
    closed = waiting.update(context(2.6), quick.with_(process=1, type=INFO))
    assert next_op(closed, 5) is None


def test_it_gives_way_to_another_entry_of_the_same_fault() -> None:
    waiting = rhythm_of(Entry("kill:leader", for_s=3, at_s=1))
    begun = waiting.fault.rounds.start.with_(extra={**waiting.fault.rounds.start.extra, "phase": "invoke"})
    taken = waiting.update(context(1), begun)
    assert next_op(taken, 2) is None
    stop = waiting.fault.rounds.stop
    assert stop is not None
    ended = taken.update(context(3), stop.with_(extra={**stop.extra, "phase": "complete"}))
    assert next_op(ended, 3) is not None
    assert waiting.op(context(2, frozenset({"kill:leader"}))) == (PENDING, waiting)


def test_asking_twice_gives_the_same_answer() -> None:
    waiting = rhythm_of(Entry("kill:leader", for_s=3, at_s=1, jitter_s=2))
    for at_s in (0, 1, 5):
        assert waiting.op(context(at_s)) == waiting.op(context(at_s))


# --- impossible times -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "problems_found"),
    [
        ([Entry("kill:leader", every_s=5, for_s=6)], [(0, "every")]),
        ([Entry("kill:leader", every_s=6, for_s=5, jitter_s=2)], [(0, "every")]),
        ([Entry("kill:leader", at_s=10, until_s=10, for_s=1)], [(0, "until")]),
        ([Entry("kill:leader", at_s=60, for_s=1)], [(0, "at")]),
        ([Entry("kill:leader", every_s=5)], [(0, "fault")]),
        ([Entry("kill:leader", when=LINE, times=2)], [(0, "fault")]),
        ([Entry("kill:client", at_s=1, for_s=2)], [(0, "for")]),
        ([Entry("kill:leader", at_s=1, for_s=5), Entry("kill:leader", at_s=3, for_s=1)], [(1, "fault")]),
        (
            [Entry("kill:leader", at_s=9, for_s=5), Entry("kill:leader", every_s=5, for_s=2, times=None)],
            [(1, "fault")],
        ),
        ([Entry("kill:leader", at_s=1), Entry("kill:leader", at_s=50, for_s=1)], [(1, "fault")]),
        ([Entry("kill:leader", at_s=1, for_s=5), Entry("kill:leader", at_s=6, for_s=1)], []),
        ([Entry("kill:leader", at_s=1, for_s=5), Entry("kill:n1", at_s=3, for_s=1)], []),
        ([Entry("kill:leader", at_s=1, for_s=5), Entry("kill:leader", when=LINE, for_s=1)], []),
        ([Entry("kill:client", at_s=1), Entry("kill:client", at_s=1)], []),
    ],
)
def test_impossible_times(schedule: list[Entry], problems_found: list[tuple[int, str]]) -> None:
    faults = {fault.name: fault for fault in chosen(schedule)}
    found = problems(schedule, faults, 60)
    assert [(problem.entry, problem.key) for problem in found] == problems_found
