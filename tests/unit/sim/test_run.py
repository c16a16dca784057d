"""Simulated runs: what a history of one looks like, and clients in threads."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import INVOKE, OK, Op, invoke, polls, sends
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.client import open_client
from harness.sim.queue.run import simulate
from harness.sim.queue.world import SimSettings, Trouble
from tests.unit.partners import partners
from tests.unit.sim.oracle import anomalies


def test_a_history_is_well_formed() -> None:
    ops = simulate(3, processes=4)
    assert [op.index for op in ops] == list(range(len(ops)))
    assert all(first.time_ns <= second.time_ns for first, second in pairwise(ops))
    busy: set[Any] = set()
    retired: set[Any] = set()
    for op, done in zip(ops, partners(ops), strict=True):
        assert op.process not in retired
        if op.type == INVOKE:
            assert op.process not in busy
            busy.add(op.process)
            assert done is not None and done.f == op.f
        else:
            busy.discard(op.process)
            if op.type == "info":
                retired.add(op.process)
    written = [(key, value) for op in ops if op.type == INVOKE for key, _, value in sends(op)]
    assert len(written) == len(set(written))


def test_everything_that_a_run_can_meet_is_in_it() -> None:
    seen = Counter((op.f, op.type) for seed in range(5) for op in simulate(seed))
    for f in ("send", "poll", "txn"):
        assert {type_ for found, type_ in seen if found == f} == {"invoke", "ok", "fail", "info"}
    assert seen["crash", "info"] and seen["assign", "ok"] and seen["subscribe", "ok"]
    assert any("rebalance_log" in op.extra for op in simulate(1))


def test_final_polls_end_where_the_logs_end() -> None:
    ops = simulate(5, processes=3)
    last: dict[Any, Op] = {}
    for op in ops:
        if op.type == OK and op.f == "poll" and op.extra.get("final"):
            last[op.process] = op
    assert len(last) == 3
    for op in last.values():
        assert op.extra["positions"] == [[key, end] for key, _, end in op.extra["ends"]]
        assert {key for key, _ in op.extra["positions"]} == {0, 1, 2, 3}
    assert sum(op.f == "debug-topic-partitions" and op.type == OK for op in ops) == 1


def test_ops_are_concurrent() -> None:
    open_now, most = 0, 0
    for op in simulate(1, processes=5):
        open_now += 1 if op.type == INVOKE else -1
        most = max(most, open_now)
    assert most == 5


def test_without_transactions_an_op_is_one_send_or_polls() -> None:
    for op in simulate(2, txn=False):
        if op.f in ("send", "poll", "txn"):
            kinds = [mop[0] for mop in op.value]
            assert kinds == ["send"] or set(kinds) == {"poll"}


def test_a_peaceful_world_has_no_failures() -> None:
    ops = simulate(2, trouble=Trouble(0.0, 0.0), crash_p=0.0, sub_via=("assign",), final=False)
    assert {op.type for op in ops if op.error != "aborted on purpose"} == {"invoke", "ok"}


def test_lost_acknowledgements_leave_records_behind() -> None:
    ops = simulate(1, txn=False, trouble=Trouble(lost_p=0.3))
    read = {(key, value) for op in ops if op.type == OK for key, _, value in polls(op)}
    lost = [(key, value) for op in ops if op.type == "info" for key, _, value in sends(op)]
    assert 0 < sum(each in read for each in lost) < len(lost)
    assert anomalies(ops) == set()


def test_bugs_are_documented() -> None:
    for name, bug in BUGS.items():
        assert bug.summary and bug.shows and not bug.shows & bug.may_show, name
        assert 0 < bug.rate <= 1


def test_an_unknown_bug_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="unknown bug gremlin; bugs are aborted-offsets"):
        SimSettings(bugs=frozenset({"gremlin"}))


def test_clients_in_threads_share_one_log() -> None:
    config = {"run": "threads", "txn": True, "seed": 4, "sim": {"lost_p": 0, "refused_p": 0}}
    found: list[list[tuple[int, int, int]]] = []

    def work(process: int) -> None:
        client = open_client(config | {"process": process})
        client.invoke(invoke("assign", [0, 1], process))
        for n in range(50):
            op = invoke("txn", [["send", process, n], ["poll"]], process).with_(index=process * 1000 + n)
            assert client.invoke(op).type == OK
        client.close()

    threads = [threading.Thread(target=work, args=(process,)) for process in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    reader = open_client(config | {"process": 2})
    reader.invoke(invoke("assign", [0, 1], 2, {"seek_to_beginning": True}))
    done = reader.invoke(invoke("poll", [["poll"]], 2, {"final": True}))
    found.append(polls(done))
    assert [value for key, _, value in found[0] if key == 1] == list(range(50))
    assert done.extra["ends"] == [[0, 0, 100], [1, 0, 100]]


def test_an_unknown_op_fails() -> None:
    assert open_client({"run": "unknown"}).invoke(invoke("dance", None, 0)).type == "fail"
