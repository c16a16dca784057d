"""Generators in simulated time."""

from __future__ import annotations

from itertools import pairwise

from harness.generator import (
    After,
    Barrier,
    Clients,
    EachSlot,
    Fn,
    ForNemesis,
    Limit,
    Once,
    Rate,
    Then,
    TimeLimit,
    any_,
    op,
    sequence,
)
from harness.model.fault_and_generator_protocols import Context
from harness.model.op import INFO, INVOKE, NEMESIS, Op
from tests.unit.harness.simulated_time import simulate

SECOND = 1_000_000_000


def numbered(f: str = "a") -> Fn:
    return Fn(lambda ctx, n: op(f, n))


def invoked(events: list[Op]) -> list[Op]:
    return [event for event in events if event.type == INVOKE]


def test_asking_twice_gives_the_same_answer() -> None:
    generator = Clients(Rate(Limit(numbered(), 3), 5))
    ctx = Context(0, (0,), (0,), True, 7)
    assert generator.op(ctx) == generator.op(ctx)


def test_limit_and_order() -> None:
    events = simulate(Clients(Limit(numbered(), 5)))
    assert [event.value for event in invoked(events)] == [0, 1, 2, 3, 4]


def test_rate_spreads_ops_evenly() -> None:
    events = simulate(TimeLimit(Rate(numbered(), SECOND // 100), SECOND))
    times = [event.time_ns for event in invoked(events)]
    assert len(times) == 100
    assert all(later - earlier == SECOND // 100 for earlier, later in pairwise(times))


def test_rate_catches_up_after_a_stall_but_only_a_little() -> None:
    events = simulate(
        Clients(TimeLimit(Rate(numbered(), SECOND // 100), 10 * SECOND)), concurrency=1, latency_ns=4 * SECOND
    )
    assert len(invoked(events)) <= 4


def test_time_limit_counts_from_the_first_question() -> None:
    events = simulate(Clients(Then((Limit(numbered("a"), 30), TimeLimit(numbered("b"), SECOND)))), concurrency=1)
    later = [event.time_ns for event in invoked(events) if event.f == "b"]
    assert max(later) - min(later) < SECOND <= max(later) - min(later) + 20_000_000


def test_barrier_waits_for_open_ops() -> None:
    events = simulate(Then((Limit(numbered("a"), 3), Barrier(Limit(numbered("b"), 3)))), latency_ns=SECOND)
    first_b = next(event.time_ns for event in events if event.f == "b")
    last_a = max(event.time_ns for event in events if event.f == "a")
    assert first_b >= last_a


def test_nemesis_ops_go_to_the_nemesis_only() -> None:
    faults = ForNemesis(sequence([op("break"), op("mend")]))
    events = simulate(any_(faults, Clients(Limit(numbered(), 4))))
    assert [event.f for event in events if event.process == NEMESIS and event.time_ns < SECOND][:1] == ["break"]
    assert all(event.type != INVOKE for event in events if event.process == NEMESIS and event.f == INFO)
    assert {event.process for event in events if event.f == "a"} <= {0, 1, 2}


def test_after_waits() -> None:
    events = simulate(After(3 * SECOND, Once(op("late"))))
    assert [event.time_ns for event in invoked(events)] == [3 * SECOND]


def test_each_slot_has_its_own_copy_across_retirement() -> None:
    events = simulate(
        EachSlot(lambda slot: sequence([op("first", slot), op("second", slot)])),
        complete=lambda done: done.with_(type=INFO if done.f == "first" else "ok"),
    )
    seconds = {int(event.process): event.value for event in invoked(events) if event.f == "second"}
    assert seconds == {3: 0, 4: 1, 5: 2}
