"""The pipeline workload's ops in simulated time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from harness.generator import Clients, Limit, TimeLimit
from harness.model.fault_and_generator_protocols import Context, Generator
from harness.model.op import FAIL, INVOKE, OK, Op
from tests.unit.harness.simulated_time import simulate
from workloads.pipeline import LAST_LAGS, Options, Writer, final, partition_of, workload

OPTIONS = Options(writers=2, instances=3, keys=7, partitions=4, inputs=2, batch=3, churn_s=5.0)
SLOTS = 5


def under_load(options: Options, seconds: float) -> list[Op]:
    generator = TimeLimit(Clients(workload(options).generator), int(seconds * 1e9))
    return simulate(generator, seed=1, concurrency=SLOTS)


def test_ids_ascend_in_each_writer_and_a_key_has_one() -> None:
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for op in under_load(OPTIONS, 2.0):
        if op.type == INVOKE and op.f == "send":
            assert len(op.value) == 3
            for _, number, id in op.value:
                ids[int(op.process) % SLOTS].append(id)
                assert number == partition_of(OPTIONS, id % op.extra["keys"])
    assert set(ids) == {0, 1}
    assert all(found == sorted(set(found)) for found in ids.values())
    keys = [{id % OPTIONS.key_count for id in found} for found in ids.values()]
    assert keys[0].isdisjoint(keys[1])
    assert keys[0] | keys[1] == set(range(8))


def test_keys_are_spread_over_all_input_partitions() -> None:
    options = replace(OPTIONS, keys=32)
    assert {partition_of(options, key) for key in range(32)} == set(range(8))


def test_instances_leave_in_turn_and_come_back() -> None:
    events = [op for op in under_load(OPTIONS, 40.0) if op.type == INVOKE and op.f != "send"]
    leaves = [int(op.process) % SLOTS for op in events if op.f == "leave"]
    assert leaves[:4] == [2, 3, 4, 2]
    for slot in (2, 3, 4):
        assert [op.f for op in events if int(op.process) % SLOTS == slot][-1] in ("work", "leave")
    first = next(op for op in events if op.f == "leave")
    after = next(op for op in events if op.process == first.process and op.time_ns > first.time_ns)
    assert after.f == "work"
    assert after.time_ns - first.time_ns >= 2.5e9
    none = under_load(replace(OPTIONS, churn_s=0.0), 20.0)
    assert not any(op.f == "leave" for op in none)


class Ends:
    """The final phase; `lag` ops find these values (None: they fail; the last one repeats), and each slot reads with
    two ops."""

    def __init__(self, *lags: int | None) -> None:
        self.lags, self.reads = list(lags), defaultdict[int, int](int)

    def __call__(self, op: Op) -> Op:
        if op.f == "lag":
            left = self.lags.pop(0) if len(self.lags) > 1 else self.lags[0]
            return op.with_(type=FAIL) if left is None else op.with_(type=OK, value={"left": left})
        if op.f == "read":
            slot = int(op.process) % SLOTS
            self.reads[slot] += 1
            return op.with_(type=OK, value={"done": self.reads[slot] == 2})
        return op.with_(type=OK)


def carried_out(generator: Generator, answer: Callable[[Op], Op]) -> list[Op]:
    """Completes every op at once; each turn takes a tenth of a second."""
    done: list[Op] = []
    now, processes = 0, list(range(SLOTS))
    for _ in range(500):
        now += 100_000_000
        ctx = Context(now, processes, processes, True, 1)
        emitted = generator.op(ctx)
        if emitted is None:
            return done
        op, generator = emitted
        if not isinstance(op, Op):
            continue
        op = op.with_(process=op.process if op.process != -1 else 0, time_ns=now)
        generator = generator.update(ctx, op)
        completed = answer(op)
        generator = generator.update(ctx, completed)
        done.append(completed)
    raise AssertionError("it does not end")


def test_in_the_end_all_is_worked_off_and_read() -> None:
    done = [(op.f, int(op.process) % SLOTS) for op in carried_out(final(OPTIONS), Ends(2, 1, 0, 0))]
    phases = [f for f, _ in done]
    assert phases.count("lag") == 4
    assert sorted(slot for f, slot in done if f == "leave") == [2, 3, 4]
    assert sorted(slot for f, slot in done if f == "read") == sorted([*range(SLOTS)] * 2)
    assert phases.index("leave") > phases.index("lag")
    assert phases.index("read") > len(phases) - 1 - phases[::-1].index("leave")
    assert {slot for f, slot in done if f == "work"} <= {2, 3, 4}


def phases(*lags: int | None) -> list[str]:
    """The final phase without repetitions."""
    done = [op.f for op in carried_out(final(replace(OPTIONS, final_s=20.0)), Ends(*lags)) if op.f != "work"]
    return [f for n, f in enumerate(done) if f != done[n - 1] or n == 0]


def test_instances_come_back_while_something_is_left_after_they_have_left() -> None:
    assert phases(2, 0, 0) == ["lag", "leave", "lag", "read"]
    assert phases(2, 0, 3, 2, 0, 0) == ["lag", "leave", "lag", "leave", "lag", "read"]
    assert phases(2, 0, 3, 0, 0) == ["lag", "leave", "lag", "leave", "lag", "read"]


def test_the_last_lag_is_asked_again_if_it_fails() -> None:
    done = [op.f for op in carried_out(final(replace(OPTIONS, final_s=20.0)), Ends(2, 0, None, None, 0))]
    assert done[done.index("leave") :].count("lag") == 3 and done.count("leave") == 3
    # No answer in all attempts: the committed offsets are unknown, so the instances work again.
    assert phases(2, 0, *[None] * LAST_LAGS, 0, 0) == ["lag", "leave", "lag", "leave", "lag", "read"]


def test_time_is_up_whatever_is_left() -> None:
    assert phases(5) == ["lag", "leave", "lag", "read"]
    assert phases(None) == ["lag", "leave", "lag", "read"]
    lags = [lag for _ in range(40) for lag in (0, 3)]  # each time they leave, there is some lag again
    done = carried_out(final(replace(OPTIONS, final_s=20.0)), Ends(*lags))
    last = [op.f for op in done if op.f in ("leave", "lag")][-4:]
    assert last == ["leave", "leave", "leave", "lag"]
    assert [op.f for op in done][-10:] == ["read"] * 10
    read_ns = min(op.time_ns for op in done if op.f == "read")
    assert 12e9 <= read_ns - done[0].time_ns <= 16e9


def grown(slot: int, sizes: list[int]) -> list[tuple[int, int]]:
    """(key, number) of the sends of a writer that has seen topics of these sizes."""
    writer: Generator = Writer(replace(OPTIONS, grows=True), slot)
    sent, now = list[tuple[int, int]](), 0
    for _ in range(40):
        now += 100_000_000
        ctx = Context(now, [slot], [slot], True, 1)
        answer = writer.op(ctx)
        assert answer is not None
        emitted, writer = answer
        assert isinstance(emitted, Op)
        if emitted.f == "sizes":
            writer = writer.update(ctx, emitted.with_(type=OK, value=sizes))
        else:
            sent += [(id % emitted.extra["keys"], number) for _, number, id in emitted.value]
    return sent


def test_what_is_new_of_a_topic_has_keys_of_each_writer() -> None:
    old = {number for _, number in grown(0, [4, 4])} | {number for _, number in grown(1, [4, 4])}
    assert old <= set(range(8))
    for slot in (0, 1):
        sent = grown(slot, [6, 5])
        numbers = {number for _, number in sent}
        assert numbers - set(range(8)) == {8, 9, 10}  # 4 of both topics, and 5 of the first
        where = dict(sent)
        assert all(where[key] == number for key, number in sent)
        assert all(key % 2 == slot for key, _ in sent)


def test_a_group_that_was_there_before_has_committed_before_the_load() -> None:
    tries = [FAIL, OK]

    def done(op: Op) -> Op:
        if op.f == "begin":
            kind = tries.pop(0)
            return op.with_(type=kind, value={"committed": True} if kind == OK else None)
        return op

    load = Limit(workload(replace(OPTIONS, group_existed=True)).generator, 4)
    assert [op.f for op in carried_out(load, done)][:3] == ["begin", "begin", "send"]
