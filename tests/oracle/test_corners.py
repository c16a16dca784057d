"""The smallest histories on which the checker and the oracle have differed, with the answer that Kafka's rules give."""

from __future__ import annotations

from typing import Any

import pytest

from checker import check
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.model.op import NEMESIS, Op
from tests.oracle.case import Case
from tests.oracle.compare import compare
from tests.oracle.fates import Fates
from tests.oracle.log import COMPACTED, DELETED, Partition
from tests.oracle.run import Run, Truth, World

MS = 1_000_000
PLAIN: dict[str, Any] = {
    "acks": "all",
    "txn": False,
    "isolation_level": "read_committed",
    "auto_offset_reset": "earliest",
    "replication": 3,
    "min_insync_replicas": 2,
    "unclean_election": False,
    "cleanup_policy": "delete",
}
BY_AGE = {**PLAIN, "broker": {"log.retention.ms": "1500"}}
DIFFERED = (7214, 9958, 11673, 14929, 16533, 18152)  # seeds, as they were drawn when they were found
Row = tuple[Any, ...]  # time in ms, process, type, f, value, extra


def judged(rows: list[Row], settings: dict[str, Any]) -> Result:
    ops = [
        Op(index, row[0] * MS + index, row[1], row[2], row[3], row[4], None, row[5] if len(row) > 5 else {})
        for index, row in enumerate(rows)
    ]
    return check.judge(in_memory(make_tables.of_ops(ops)), CheckOptions(settings=Settings(**settings)))


def bad(result: Result) -> set[str]:
    return {found.name for found in result.anomalies if found.bad}


def sent(at_ms: int, process: int, *places: tuple[int | None, int]) -> list[Row]:
    """An operation that sends values to key 0 and is acknowledged with their offsets."""
    asked = [["send", 0, value] for _, value in places]
    told = [["send", 0, [offset, value]] for offset, value in places]
    return [(at_ms, process, "invoke", "send", asked), (at_ms + 5, process, "ok", "send", told)]


def read(at_ms: int, process: int, *records: list[int], final: dict[str, Any] | None = None) -> list[Row]:
    """A consumer that is assigned key 0 and polls; with `final`: from the beginning, with what it was told at last."""
    extra = {} if final is None else {"final": True}
    begin = {**extra, "seek_to_beginning": True} if final is not None else {}
    value = [["poll", [[0, list(records)]] if records else []]]
    return [
        (at_ms, process, "invoke", "assign", [0], begin),
        (at_ms + 1, process, "ok", "assign", [0], begin),
        (at_ms + 2, process, "invoke", "poll", [["poll"]], extra),
        (at_ms + 3, process, "ok", "poll", value, {**extra, **(final or {})}),
    ]


def fault(at_ms: int, f: str, name: str, span: str, phase: str, value: dict[str, Any]) -> Row:
    return (at_ms, NEMESIS, "info", f, value, {"fault": name, "span": span, "phase": phase})


def whole(start: int, end: int) -> dict[str, Any]:
    return {"positions": [[0, end]], "ends": [[0, start, end]]}


def test_what_has_no_known_place_and_was_not_looked_for_is_not_known() -> None:
    """One of two records was deleted; neither place is known, and nobody read the log to its end."""
    rows = [
        *sent(0, 1, (None, 1)),
        fault(20, "delete-records", "delete-records:some", "", "invoke", {"target": "some"}),
        fault(30, "delete-records", "delete-records:some", "", "complete", {"took_effect": True, "deleted": [[0, 1]]}),
        *sent(40, 1, (None, 2)),
        *read(60, 2),
    ]
    assert judged(rows, PLAIN).valid == "unknown"


def test_what_was_missing_when_its_log_was_read_stays_lost_when_the_rest_is_deleted() -> None:
    """The log began below the record when it was read to its end without it; later all of it was deleted by age."""
    rows = [
        *sent(0, 1, (0, 5), (1, 6)),
        *read(100, 7, [1, 6], final=whole(0, 2)),
        *read(5000, 8, final=whole(2, 2)),
    ]
    assert bad(judged(rows, BY_AGE)) >= {"lost-write"}


def test_brokers_delete_by_age_before_and_after_a_compacting_policy() -> None:
    """Under cleanup.policy=delete again, what is over its age may be gone: nobody looked at the log's start."""
    name = "config-change:compact"
    rows = [
        fault(0, "config-change", name, "start", "invoke", {"target": "compact"}),
        fault(1, "config-change", name, "start", "complete", {"took_effect": True}),
        fault(2, "config-back", name, "stop", "complete", {"cleaned": [[0, 0]]}),
        *sent(10, 3, (2, 12)),
        *sent(2000, 4, (4, 15)),
        *read(4000, 5, [4, 15]),
    ]
    result = judged(rows, {**BY_AGE, "cleanup_policy": "compact"})
    assert (result.valid, bad(result)) == ("unknown", set())


def test_what_was_read_before_a_record_was_sent_does_not_tell_that_it_is_lost() -> None:
    """An offset is given away twice, which is bad enough; that nobody read its second record is no loss."""
    rows = [*sent(0, 1, (0, 1)), *read(20, 2, [0, 1], [1, 3]), *sent(10, 3, (1, 3)), *sent(40, 4, (1, 7))]
    assert bad(judged(sorted(rows, key=lambda row: row[0]), PLAIN)) == {"inconsistent-offsets"}


def test_what_was_read_of_a_log_that_was_cut_off_tells_nothing_of_what_came_later() -> None:
    """Offset 4 was read, the log was cut off, and offset 2 was given to a later record that nobody looked for."""
    rows = [*sent(0, 1, (0, 1), (4, 5)), *read(20, 2, [0, 1], [4, 5]), *sent(40, 4, (2, 7))]
    assert "lost-write" not in bad(judged(rows, PLAIN))


def test_an_end_below_an_acknowledged_record_tells_that_it_is_lost() -> None:
    rows = [*sent(0, 1, (0, 1), (1, 2)), *read(70, 9, final={"positions": [[0, 0]], "ends": [[0, 0, 1]]})]
    assert bad(judged(rows, PLAIN)) == {"lost-write"}


def test_final_polls_that_begin_at_the_end_read_nothing() -> None:
    rows = [*sent(0, 1, (0, 1)), *read(70, 9, final=whole(0, 1))]
    begun_at_the_end = [(*row[:5], {"final": True}) if row[3] == "assign" else row for row in rows]
    assert judged(begun_at_the_end, {**PLAIN, "auto_offset_reset": "latest"}).valid == "unknown"


def test_a_reader_that_was_reset_to_the_end_does_not_tell_that_what_it_missed_was_there() -> None:
    """Under auto.offset.reset=latest the log start moved under the first reader; later all of it was deleted by age."""
    rows = [
        *sent(0, 1, (0, 1)),
        *sent(50, 1, (1, 2)),
        *read(100, 7, final=whole(1, 2)),
        *read(5000, 8, final=whole(2, 2)),
    ]
    assert judged(rows, {**BY_AGE, "auto_offset_reset": "latest"}).valid == "unknown"


def test_what_was_deleted_without_a_known_place_may_never_have_been_there_with_acks_0() -> None:
    deleted = [(20, 5, "invoke", "delete-records", [[0, -1]]), (21, 5, "ok", "delete-records", [[0, -1]])]
    rows = [*sent(0, 1, (None, 1)), *deleted, *read(60, 2, final=whole(1, 1))]
    assert judged(rows, {**PLAIN, "acks": "0"}).valid == "unknown"


def test_what_was_acknowledged_stands_before_what_is_sent_later_though_nobody_read_either() -> None:
    rows = [*sent(0, 1, (1, 1)), *sent(20, 2, (0, 2)), *read(5000, 3, final=whole(2, 2))]
    assert bad(judged(rows, {**BY_AGE, "acks": "1"})) == {"stale-send"}


def _world() -> tuple[World, Partition]:
    world = World(Case(0, 1, keys=1, replication=1, min_isr=1))
    return world, world.logs.partitions[0]


def test_a_log_is_cut_off_though_all_that_it_held_there_had_been_deleted() -> None:
    """Its offsets are given away again."""
    world, log = _world()
    log.append(1, None, 0)
    log.append(2, None, 0)
    log.replicate()
    log.delete_before(2)
    log.reach[0] = 1  # a power cut
    log.elect(0)
    fates = Fates(Run(world.case, [], [], Truth(world)))
    assert log.truncations == [1]
    assert (fates.fate[0, 1], fates.cut_off, fates.troubled) == (DELETED, {(0, 2)}, {0})


def test_a_record_is_cut_off_with_its_last_copy() -> None:
    """The copy before it was compacted, so what was acknowledged of it is gone for all to see."""
    world, log = _world()
    first = log.append(1, None, 0)
    log.append(1, None, 0)
    log.remove([first], COMPACTED)
    log.truncate(1)
    fates = Fates(Run(world.case, [], [], Truth(world)))
    assert (fates.fate[0, 1], fates.cut_off) == (COMPACTED, {(0, 1)})


@pytest.mark.parametrize("seed", DIFFERED)
def test_what_once_differed_agrees(seed: int) -> None:
    assert compare(seed).wrong == []
