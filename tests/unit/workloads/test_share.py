"""The generator of the share workload, in simulated time, with clients that answer at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from harness.generator import EachSlot, Fn, Limit, Then, op
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator
from harness.model.op import INFO, INVOKE, OK, Op
from workloads import share
from workloads.final_polls import FinalPolls
from workloads.share import Options
from workloads.topic_recreation import Afterwards, F, Recreation

OPTIONS = Options(writers=1, members=2, partitions=2)
STEP_NS = 10_000_000


class Run:
    """Runs a generator with slots 0 to 2. Polls return one new record each while `records` is above 0."""

    def __init__(self, generator: Generator, records: int) -> None:
        self._generator, self._records, self._now = generator, records, 0
        self._processes = [0, 1, 2]
        self._turn = self.asked = 0
        self.ops: list[Op] = []

    def _context(self, free: list[int]) -> Context:
        return Context(self._now, free, list(self._processes), True, 7)

    def _answer(self, op: Op) -> Op:
        if op.f == "crash":
            return op.with_(type=INFO)
        if op.f == "share-poll":
            self._records -= 1
            rows = [[1, self._records, 0, 1]] if self._records > 0 else []
            return op.with_(type=OK, value={"records": rows})
        if op.f == "share-acknowledge":
            return op.with_(type=OK, value=[[*row, None] for row in op.value])
        if op.f == "share-offsets":
            self.asked += 1
            read = 2 if self.asked > 2 else 0
            return op.with_(type=OK, value={}, extra={**op.extra, "partitions": read})
        return op.with_(type=OK)

    def go(self, steps: int) -> bool:
        """Returns whether the generator has ended within this number of ops."""
        for _ in range(steps):
            self._turn += 1  # the client that has been idle for the longest time is the first
            free = [self._processes[(self._turn + n) % 3] for n in range(3)]
            answer = self._generator.op(self._context(free))
            if answer is None:
                return True
            made, self._generator = answer
            self._now += STEP_NS
            if made is PENDING or not isinstance(made, Op):
                continue
            process = self._processes[0] if made.process == -1 else made.process
            invoked = made.with_(type=INVOKE, process=process, time_ns=self._now)
            self.ops.append(invoked)
            context = self._context([each for each in self._processes if each != process])
            self._generator = self._generator.update(context, invoked)
            done = self._answer(invoked)
            self._generator = self._generator.update(context, done)
            if done.type == INFO:
                self._processes[self._processes.index(process)] = int(process) + 3
        return False


def _acknowledged(ops: list[Op]) -> list[list[object]]:
    return [row for op in ops if op.f == "share-acknowledge" for row in op.value]


def test_members_acknowledge_what_they_got_and_senders_use_unique_values() -> None:
    run = Run(share.load(replace(OPTIONS, renews=(False, True))), 10_000)
    run.go(3000)
    sends = [tuple(mop[1:]) for op in run.ops if op.f == "send" for mop in op.value]
    assert len(set(sends)) == len(sends) > 100
    assert {key for key, _ in sends} == {0, 1}
    kinds = Counter(row[2] for row in _acknowledged(run.ops))
    assert {*kinds} == {"accept", "release", "reject", "renew"}
    assert kinds["accept"] > sum(kinds.values()) / 2
    assert {"crash", "share-close"} <= {op.f for op in run.ops}


def test_a_library_without_renewal_never_renews() -> None:
    run = Run(share.load(OPTIONS), 10_000)
    run.go(2000)
    assert "renew" not in {row[2] for row in _acknowledged(run.ops)}


def test_implicit_acknowledgement_only_polls() -> None:
    run = Run(share.load(replace(OPTIONS, acknowledgement="implicit")), 10_000)
    run.go(1000)
    assert _acknowledged(run.ops) == []


def test_a_member_that_left_comes_back_as_another_member() -> None:
    run = Run(share.load(replace(OPTIONS, leave_p=1.0, hold_p=0.0)), 10_000)
    run.go(200)
    names = [op.extra["member"] for op in run.ops if op.process == 1 and op.f == "share-poll"]
    assert len(set(names)) == len(names) > 3


def test_the_final_phase_accepts_everything_until_nothing_comes_for_long_enough() -> None:
    run = Run(share.final(OPTIONS), 50)
    assert run.go(20_000)
    assert {row[2] for row in _acknowledged(run.ops)} == {"accept"}
    assert sum(len(row) > 0 for row in _acknowledged(run.ops)) == 49
    polls = [op.time_ns for op in run.ops if op.f == "share-poll"]
    assert polls[-1] - polls[49] >= OPTIONS.idle_ns - 10 * STEP_NS
    assert Counter(op.f for op in run.ops if op.f in ("share-close", "share-offsets")) == {
        "share-close": 2,
        "share-offsets": 1,
    }


def test_senders_use_partitions_that_were_added() -> None:
    sender = share.Sender(OPTIONS, 0, OPTIONS.keys)
    sizes = Op(0, 0, 0, OK, "share-sizes", {"0": 3})
    context = Context(0, [0], [0], True, 7)
    assert sender.update(context, sizes).keys == (0, 1, 2)  # type: ignore[attr-defined]


def test_each_group_has_members_of_both_libraries() -> None:
    options = Options(writers=2, members=4, groups=2, renews=(False, True))
    assert [options.group(slot) for slot in range(2, 6)] == ["g0", "g0", "g1", "g1"]
    assert [replace(options, members=2).group(slot) for slot in (2, 3)] == ["g0", "g1"]


def test_before_the_load_members_poll_until_their_groups_read_partitions() -> None:
    run = Run(share.before(OPTIONS), 0)
    assert run.go(1000)
    assert {op.f for op in run.ops} == {"share-poll", "share-offsets"}
    assert run.asked == 3


def test_the_time_before_the_load_is_bounded() -> None:
    run = Run(share.before(OPTIONS), 0)
    run.asked = -10_000  # the groups never read partitions
    assert run.go(2000)
    assert 0.9 * share.BEFORE_S < run.ops[-1].time_ns / 1e9 <= share.BEFORE_S


def test_the_members_of_the_load_leave_before_the_final_phase() -> None:
    options = replace(OPTIONS, crash_p=0.0)
    run = Run(Then((Limit(share.load(options), 60), share.final(options))), 20)
    run.go(5000)  # the final polls, for which this simulation has no answers, have begun
    final = [op for op in run.ops if op.extra.get("final") and op.process in (1, 2)]
    for process in (1, 2):
        first, *rest = [op for op in final if op.process == process and op.f.startswith("share-")]
        members = {op.extra["member"] for op in rest}
        assert first.f == "share-close"
        assert first.extra["member"] not in members and len(members) == 1


def test_topics_are_created_again_when_no_send_is_open() -> None:
    inner = EachSlot(lambda slot: Fn(lambda ctx, n: op("send", [["send", 1, n]]) if slot == 0 else op("share-poll")))
    state: Any = Recreation(inner, 10, 1)
    ctx = Context(0, (0, 1), (0, 1), True, 7)
    made, state = state.op(ctx)
    assert (made.f, made.value) == ("send", [["send", 1, 0]])
    sending = made.with_(index=0, process=0)
    state = state.update(ctx, sending)
    late = Context(20, (1,), (0, 1), True, 7)
    made, state = state.op(late)
    assert made.f == "share-poll"  # members go on; the sender's op is open
    state = state.update(late, sending.with_(type=OK, value=[["send", 1, [0, 0]]]))
    made, state = state.op(Context(30, (0, 1), (0, 1), True, 7))
    assert (made.f, made.process) == (F, 0)
    state = state.update(late, made.with_(type=OK, value=[[1, 1]]))
    made, state = state.op(Context(40, (0, 1), (0, 1), True, 7))
    assert (made.value, made.extra["incarnation"]) == ([["send", 101, 1]], 1)


def test_the_final_phase_reads_the_topics_that_are_left() -> None:
    polls: Any = FinalPolls()
    ctx = Context(0, (0,), (0,), True, 7)
    polls = polls.update(ctx, op("send", [["send", 1, 0]]))
    polls = polls.update(ctx, op(F).with_(type=OK, value=[[1, 1]]))
    polls = polls.update(ctx, op("send", [["send", 101, 0]]))
    assert polls.keys == frozenset({101})
    after = Afterwards(polls).update(ctx, op(F).with_(type=OK, value=[]))
    assert after.incarnation == 1  # type: ignore[attr-defined]
