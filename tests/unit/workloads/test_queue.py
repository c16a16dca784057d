"""The queue workload in simulated time."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.generator import Clients, Limit, Then
from harness.model.op import INFO, INVOKE, OK, Op
from tests.unit.harness.simulated_time import simulate
from workloads.final_polls import Drain, FinalPolls
from workloads.queue import InterleaveSubscribes, Options, PollUnseen, tagged, txns, workload


def invoked(events: list[Op]) -> list[Op]:
    return [event for event in events if event.type == INVOKE]


def load(options: Options, ops: int = 2000, seed: int = 1) -> list[Op]:
    return invoked(simulate(Clients(Limit(workload(options).generator, ops)), seed=seed))


def test_same_seed_same_ops() -> None:
    options = Options(txn=True, max_txn_length=4)
    first, again, other = load(options, 500), load(options, 500), load(options, 500, seed=2)
    assert [(op.f, op.value) for op in first] == [(op.f, op.value) for op in again]
    assert [(op.f, op.value) for op in first] != [(op.f, op.value) for op in other]


def test_values_count_up_per_key_and_keys_rotate() -> None:
    sent: dict[int, list[int]] = {}
    for op in load(Options(max_writes_per_key=10, key_count=3)):
        for mop in op.value if op.f in ("send", "txn") else ():
            if mop[0] == "send":
                sent.setdefault(mop[1], []).append(mop[2])
    assert all(values == list(range(len(values))) for values in sent.values())
    assert max(len(values) for values in sent.values()) == 10
    assert sorted(sent) == list(range(len(sent)))
    assert len(sent) > 50


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 5), (3, 3)])
def test_txn_lengths(low: int, high: int) -> None:
    lengths = {
        len(op.value)
        for op in load(Options(min_txn_length=low, max_txn_length=high))
        if op.f in ("send", "poll", "txn")
    }
    assert lengths == set(range(low, high + 1))


def test_tags_say_what_is_inside() -> None:
    assert tagged([["send", 1, 2], ["send", 1, 3]]) == "send"
    assert tagged([["poll"]]) == "poll"
    assert tagged([["poll"], ["send", 1, 2]]) == "txn"


def test_exponential_prefers_later_keys_and_uniform_does_not() -> None:
    def counts(dist: str) -> Counter[int]:
        options = Options(key_dist=dist, key_count=6, max_writes_per_key=10**6)
        return Counter(mop[1] for op in load(options, 6000) if op.f == "send" for mop in op.value)

    exponential, uniform = counts("exponential"), counts("uniform")
    assert 1.6 < exponential[5] / exponential[4] < 2.5
    assert 0.8 < uniform[5] / uniform[0] < 1.25


@pytest.mark.parametrize("via", [("assign",), ("subscribe",), ("assign", "subscribe")])
def test_subscribes_come_with_their_probability_and_kind(via: tuple[str, ...]) -> None:
    ops = load(Options(sub_p=0.1, sub_via=via), 4000)
    subs = [op for op in ops if op.f in ("assign", "subscribe")]
    assert 0.08 < len(subs) / len(ops) < 0.12
    assert {op.f for op in subs} == set(via)
    assert all(op.value and op.value == sorted(set(op.value)) for op in subs)


def test_aborts_only_in_transactions() -> None:
    assert not any(op.extra.get("abort") for op in load(Options(abort_p=0.5)))
    aborted = [op for op in load(Options(abort_p=0.5, txn=True)) if op.extra.get("abort")]
    assert 800 < len(aborted) < 1200


def test_poll_unseen_adds_keys_that_were_never_polled() -> None:
    def complete(op: Op) -> Op:
        if op.f == "send":
            return op.with_(type=OK, value=[["send", mop[1], [mop[2], mop[2]]] for mop in op.value])
        return op.with_(type=OK, value=[["poll", []]] if op.f == "poll" else op.value)

    options = Options(key_count=4, max_writes_per_key=5, sub_p=0.2)
    generator = PollUnseen(InterleaveSubscribes(options, txns(options)))
    assigns = [op for op in invoked(simulate(Clients(Limit(generator, 600)), complete=complete)) if op.f == "assign"]
    assert max(len(op.value) for op in assigns) > 8  # more than the recent keys: old ones that were never polled


def caught_up(ends_move: int = 0):  # type: ignore[no-untyped-def]
    """A cluster in simulated time whose logs end at 7; the first `ends_move` final polls see them end at 5."""
    seen = [0]

    def complete(op: Op) -> Op:
        if op.f == "crash":
            return op.with_(type=INFO)
        if op.f == "poll" and op.extra.get("final"):
            seen[0] += 1
            end = 5 if seen[0] <= ends_move else 7
            extra = {**op.extra, "positions": [[0, end], [1, end]], "ends": [[0, 0, end], [1, 0, end]]}
            return op.with_(type=OK, value=[["poll", []]], extra=extra)
        return op.with_(type=OK)

    return complete


def finals(complete, concurrency: int = 2, send_first: bool = False) -> list[Op]:  # type: ignore[no-untyped-def]
    options = Options(key_count=2, key_dist="uniform")
    run = Then((Clients(Limit(txns(options), 50)), Clients(FinalPolls(send_first=send_first))))
    events = simulate(run, concurrency=concurrency, complete=complete, latency_ns=100_000_000)
    return [op for op in events if op.extra.get("final")]


def test_final_polls_crash_assign_everything_and_poll_until_stable() -> None:
    ops = invoked(finals(caught_up()))
    by_slot = [[op.f for op in ops if int(op.process) % 2 == slot] for slot in (0, 1)]
    assert by_slot[0][:3] == ["crash", "debug-topic-partitions", "assign"]
    assert by_slot[1][:2] == ["crash", "assign"]
    assign = next(op for op in ops if op.f == "assign")
    assert assign.value == [0, 1]
    assert assign.extra["seek_to_beginning"]
    polls = [op for op in ops if op.f == "poll" and int(op.process) % 2 == 0]
    assert polls[-1].time_ns - polls[0].time_ns >= 2_000_000_000


def test_producers_that_are_reused_send_before_the_final_polls() -> None:
    ops = invoked(finals(caught_up(), send_first=True))
    sends = [op for op in ops if op.f == "send"]
    assert sorted(op.value for op in sends) == [[["send", key, value] for key in (0, 1)] for value in (-3, -2)]
    assert [op.f for op in ops if int(op.process) % 2 == 1][:3] == ["send", "crash", "assign"]


def test_a_client_that_cannot_send_for_half_a_minute_gets_a_new_producer() -> None:
    crashed: set[int] = set()
    good = caught_up()

    def complete(op: Op) -> Op:
        if op.f == "crash":
            crashed.add(int(op.process) % 2)
        stuck = op.f == "send" and op.extra.get("final") and int(op.process) % 2 not in crashed
        return op.with_(type=INFO) if stuck else good(op)  # type: ignore[no-any-return]

    ops = [op for op in invoked(finals(complete, send_first=True)) if int(op.process) % 2 == 0]
    names = [op.f for op in ops]
    crash = names.index("crash")
    assert ops[crash].time_ns - ops[0].time_ns >= 31_000_000_000 and set(names[:crash]) == {"send"}
    assert names[crash + 1 : crash + 4] == ["send", "crash", "debug-topic-partitions"]
    values = [op.value[0][2] for op in ops if op.f == "send"]
    assert values == sorted(set(values), reverse=True) and all(value % 2 == 0 for value in values)


def test_final_polls_start_again_counting_when_an_end_moves() -> None:
    polls = [op for op in invoked(finals(caught_up(ends_move=15))) if op.f == "poll"]
    assert polls[-1].time_ns - polls[0].time_ns >= 2_700_000_000


def test_final_polls_begin_again_when_the_process_is_retired() -> None:
    broken = [True]
    good = caught_up()

    def complete(op: Op) -> Op:
        if op.f == "poll" and op.extra.get("final") and broken[0]:
            broken[0] = False
            return op.with_(type=INFO)
        return good(op)  # type: ignore[no-any-return]

    ops = invoked(finals(complete, concurrency=1))
    assert [op.f for op in ops if op.f != "poll"] == ["crash", "debug-topic-partitions", "assign", "assign"]


def test_a_slot_without_progress_begins_again_after_ten_seconds() -> None:
    def complete(op: Op) -> Op:
        if op.f == "crash":
            return op.with_(type=INFO)
        extra = {**op.extra, "positions": [[0, 3]], "ends": [[0, 0, 9]]} if op.f == "poll" else op.extra
        return op.with_(type=OK, extra=extra)

    run = Limit(Clients(FinalPolls(keys=frozenset([0]))), 130)
    ops = invoked(simulate(run, concurrency=1, complete=complete, latency_ns=100_000_000))
    assert [op.f for op in ops].count("crash") == 2


def test_drain_ignores_events_of_others() -> None:
    drain = Drain((0,), debug=False, settle_ns=2_000_000_000)
    assert drain.stage == "crash"
