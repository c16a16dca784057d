"""The simulated log and its group: offsets, markers, isolation, generations."""

from __future__ import annotations

import pytest

from harness.sim.queue.group import Group
from harness.sim.queue.log import SimLog

RC, RU = "read_committed", "read_uncommitted"


def test_records_get_dense_offsets() -> None:
    log = SimLog()
    assert [log.append(1, value) for value in "abc"] == [0, 1, 2]
    assert log.read(1, 0, 10, RC) == ([(0, "a"), (1, "b"), (2, "c")], 3)
    assert log.read(1, 1, 1, RC) == ([(1, "b")], 2)
    assert log.read(2, 0, 10, RC) == ([], 0)


def test_markers_take_offsets_and_positions_step_over_them() -> None:
    log = SimLog()
    txn = log.begin()
    log.append(1, "a", txn)
    log.append(2, "b", txn)
    log.commit(txn)
    assert log.append(1, "c") == 2
    assert log.read(1, 0, 10, RC) == ([(0, "a"), (2, "c")], 3)
    assert log.read(2, 0, 10, RC) == ([(0, "b")], 2)


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    log = SimLog()
    log.append(1, "a")
    txn = log.begin()
    log.append(1, "b", txn)
    log.append(1, "c")
    assert log.end(1, RC) == 1 and log.end(1, RU) == 3
    assert log.read(1, 0, 10, RC) == ([(0, "a")], 1)
    assert log.read(1, 0, 10, RU) == ([(0, "a"), (1, "b"), (2, "c")], 3)
    log.abort(txn)
    assert log.read(1, 0, 10, RC) == ([(0, "a"), (2, "c")], 4)
    assert [value for _, value in log.read(1, 0, 10, RU)[0]] == ["a", "b", "c"]


def test_a_transaction_ends_once() -> None:
    log = SimLog()
    txn = log.begin()
    log.commit(txn)
    for again in (log.commit, log.abort):
        with pytest.raises(ValueError, match="already committed"):
            again(txn)
    with pytest.raises(ValueError, match="is committed"):
        log.append(1, "late", txn)


def test_a_reserved_offset_holds_readers_back_until_it_is_filled() -> None:
    log = SimLog()
    kept = log.reserve(1)
    log.append(1, "second")
    assert log.read(1, 0, 10, RC) == ([], 0)
    log.fill(1, kept, "first")
    assert log.read(1, 0, 10, RC) == ([(0, "first"), (1, "second")], 2)
    log.fill(1, log.reserve(1), None)
    assert log.read(1, 2, 10, RC) == ([], 3)


def test_losses() -> None:
    log = SimLog()
    for value in "abc":
        log.append(1, value)
    log.erase(1, 0)
    assert not log.truncate(1, 1)
    assert log.truncate(1, 2)
    assert log.append(1, "d") == 2
    assert log.read(1, 0, 10, RC) == ([(1, "b"), (2, "d")], 3)


def test_leaked_and_own_records() -> None:
    log = SimLog()
    txn = log.begin()
    log.append(1, "a", txn)
    assert log.read(1, 0, 10, RC, own=txn) == ([(0, "a")], 1)
    log.leak(txn)
    log.abort(txn)
    assert log.read(1, 0, 10, RC) == ([(0, "a")], 2)


def test_a_group_shares_topics_among_its_members() -> None:
    group = Group(4)
    group.subscribe(1, [0, 5])
    assert group.share(1) == [0, 1, 2, 3, 4, 5, 6, 7]
    group.subscribe(2, [4])
    assert group.share(1) == [0, 1, 2, 3, 4, 6] and group.share(2) == [5, 7]
    group.leave(1)
    assert group.share(1) == [] and group.share(2) == [4, 5, 6, 7]


def test_a_commit_of_an_old_generation_is_refused() -> None:
    group = Group(4)
    group.subscribe(1, [0])
    generation = group.generation
    assert group.commit(generation, {0: 5})
    group.subscribe(2, [0])
    assert not group.commit(generation, {0: 9})
    assert group.committed(0) == 5 and group.committed(1) is None
    group.leave(3)
    assert group.generation == generation + 1
