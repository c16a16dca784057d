"""Series and statistics, compared with plain loops over the ops of simulated runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from checker.kernels import lag, statistics, unseen_over_time
from checker.kernels.bucket_of_keys import Bucket
from checker.tables import make_tables
from checker.tables.columns import Data
from checker.tables.packing import empty
from harness.model.check_options import CheckOptions
from harness.model.op import Op, polls, sends
from harness.sim.queue.run import simulate
from tests.unit.partners import partners

SEEDS = range(6)


def bucket_of(ops: list[Op], compatible: bool = False) -> tuple[Bucket, make_tables.Tables]:
    tables = make_tables.of_ops(ops)
    data = Data.of(tables.sends, tables.polls)
    options = CheckOptions(jepsen_compatible=compatible)
    return Bucket(data, make_tables.small_of(tables.small, tables.meta), empty(), options), tables


def oks(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.type == "ok"]


def plain_lags(ops: list[Op]) -> Iterator[tuple[int, int, Any, int]]:
    """(time, process, key, lag) of every `ok` poll and key, by the definition in checker.kernels.unseen_over_time."""
    known = [(key, offset, op.time_ns) for op in oks(ops) for key, offset, _ in sends(op) if offset is not None]
    halves = partners(ops)
    places: dict[int, dict[Any, int]] = {}
    for position, op in enumerate(ops):
        if op.type != "ok":
            continue
        place = places.setdefault(op.process, {})  # type: ignore[arg-type]
        if op.f == "assign":
            places[op.process] = {key: place.get(key, -1) for key in op.value}  # type: ignore[index]
        elif op.f == "subscribe":
            places[op.process] = {}  # type: ignore[index]
        elif op.f in ("poll", "txn"):
            began = halves[position]
            assert began is not None
            for key, offset, _ in [*polls(op), *sends(op)]:
                if offset is not None:
                    place[key] = max(place.get(key, -1), offset)
            for key, offset in place.items():
                newer = [time for k, o, time in known if k == key and o > offset]
                yield began.time_ns, op.process, key, max(0, began.time_ns - min(newer, default=math.inf))  # type: ignore[misc]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("txn", [False, True])
def test_realtime_lag(seed: int, txn: bool) -> None:
    ops = simulate(seed, ops=120, txn=txn)
    bucket, tables = bucket_of(ops)
    expected = list(plain_lags(ops))
    found = lag.realtime_lag(bucket, lag.Reads.of([tables.ops]), 100_000).to_pylist()
    assert {(r["time_ns"], r["process"], r["key"], r["lag_ns"]) for r in found} <= set(expected)
    for process, key in {(process, key) for _, process, key, _ in expected}:
        worst = max(lag for _, p, k, lag in expected if (p, k) == (process, key))
        assert max(r["lag_ns"] for r in found if (r["process"], r["key"]) == (process, key)) == worst


@pytest.mark.parametrize("seed", SEEDS)
def test_unseen(seed: int) -> None:
    """With one time interval per op, the series is the number of acknowledged values not yet polled."""
    ops = simulate(seed, ops=120, final=seed % 2 == 0)
    bucket, _ = bucket_of(ops)
    sent: dict[Any, set[Any]] = {}
    polled: dict[Any, set[Any]] = {}
    levels: dict[Any, list[tuple[int, int]]] = {}
    for op in oks(ops):
        for key, _, value in sends(op):
            sent.setdefault(key, set()).add(value)
        for key, _, value in polls(op):
            polled.setdefault(key, set()).add(value)
        for key in sent:
            levels.setdefault(key, []).append((op.time_ns, len(sent[key] - polled.get(key, set()))))
    found = unseen_over_time.unseen(bucket, 100_000).to_pylist()
    for key, points in levels.items():
        mine = [row for row in found if row["key"] == key]
        if not mine:
            assert max(level for _, level in points) == 0
            continue
        assert max(row["unseen"] for row in mine) == max(level for _, level in points)
        assert mine[-1]["unseen"] == points[-1][1]


def test_series_are_small() -> None:
    ops = simulate(1, ops=400)
    bucket, tables = bucket_of(ops)
    assert unseen_over_time.unseen(bucket, 40).num_rows <= 60
    full = lag.realtime_lag(bucket, lag.Reads.of([tables.ops]), 100_000)
    small = lag.realtime_lag(bucket, lag.Reads.of([tables.ops]), 1)
    assert small.num_rows < full.num_rows
    assert max(small.column("lag_ns").to_pylist()) == max(full.column("lag_ns").to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_consume_counts_and_intermediate_reads(seed: int) -> None:
    ops = simulate(seed, ops=200)
    bucket, _ = bucket_of(ops)
    subscribed: dict[Any, bool] = {}
    times: Counter[tuple[Any, Any]] = Counter()
    together: dict[Any, set[Any]] = {}
    writer: dict[Any, Any] = {}
    for op in ops:
        if op.type != "invoke":
            for key, _, value in sends(op):
                together.setdefault((op.index, key), set()).add(value)
                writer[(key, value)] = (op.index, key)
    partly = 0
    for op in ops:
        if op.type == "ok" and op.f in ("assign", "subscribe"):
            subscribed[op.process] = op.f == "subscribe"
        if op.type == "invoke" or op.f not in ("poll", "txn"):
            continue
        if op.type == "ok" and subscribed.get(op.process):
            times.update((key, value) for key, _, value in polls(op))
        for mop in op.value or []:
            one = op.with_(value=[mop])
            seen: dict[Any, set[Any]] = {}
            for key, _, value in polls(one):
                if (key, value) in writer:
                    seen.setdefault(writer[(key, value)], set()).add(value)
            partly += sum(values != together[group] for group, values in seen.items())
    distribution, listed = statistics.consumed(bucket)
    assert distribution == Counter(times.values())
    assert {(key, value): n for key, value, n in listed}.items() <= times.items()
    assert statistics.intermediate_reads(bucket) == partly


def test_statistics_of_a_whole_history() -> None:
    from checker.check import judge
    from checker.tables.buckets_of_a_history import in_memory

    ops = simulate(3, ops=200)
    figures = judge(in_memory(make_tables.of_ops(ops)), CheckOptions()).statistics
    acknowledged = {(key, value) for op in oks(ops) for key, _, value in sends(op)}
    seen = {(key, value) for op in oks(ops) for key, _, value in polls(op)}
    assert figures["acknowledged"] == len(acknowledged)
    assert figures["seen"] == len(acknowledged & seen)
    assert figures["rates"]["seen"] == round(len(acknowledged & seen) / len(acknowledged), 6)
    by_f = Counter((op.f, op.type) for op in ops if op.type != "invoke")
    assert {(f, kind): n for f, kinds in figures["by_f"].items() for kind, n in kinds.items()} == by_f
    assert set(figures["latencies"]) == {op.f for op in oks(ops)}
