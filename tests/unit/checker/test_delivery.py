"""The delivery check compares the outcome of each send with how often the record is in the log."""

from __future__ import annotations

from typing import Any

from checker.check import judge
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.model.check_options import CheckOptions
from harness.model.op import FAIL, INFO, INVOKE, OK, Op


def history(*events: tuple[int, str, str, Any]) -> list[Op]:
    return [Op(n, n * 1000, process, kind, f, value) for n, (process, kind, f, value) in enumerate(events)]


def counted(*events: tuple[int, str, str, Any]) -> dict[str, Any]:
    tables = make_tables.of_ops(history(*events))
    result = judge(in_memory(tables), CheckOptions(checks=("delivery",)))
    found: dict[str, Any] = result.statistics["delivery"]
    return found


def send(process: int, value: int, kind: str, offset: int | None = None) -> list[tuple[int, str, str, Any]]:
    done = [["send", 0, value if offset is None else [offset, value]]]
    return [(process, INVOKE, "send", [["send", 0, value]]), (process, kind, "send", done)]


def poll(*records: tuple[int, int]) -> list[tuple[int, str, str, Any]]:
    return [
        (9, INVOKE, "poll", [["poll"]]),
        (9, OK, "poll", [["poll", [[0, [list(record) for record in records]]]]]),
    ]


def test_cells() -> None:
    found = counted(
        *send(0, 1, OK, 0),
        *send(1, 2, INFO),
        *send(2, 3, FAIL),
        *send(0, 4, OK, 9),
        *send(1, 5, INFO),
        *poll((0, 1), (1, 2), (2, 2), (3, 3)),
    )
    assert found["acknowledged"] == {"0": 1, "1": 1}
    assert found["failed"] == {"1": 1}
    assert found["unknown"] == {"0": 1, "2": 1}
    assert (found["lost"], found["phantoms"], found["duplicates"]) == (1, 2, 1)
    assert (found["in_log"], found["copies"], found["out_of_order"]) == (3, 4, 0)


def test_read_twice_is_one_copy_and_order_is_that_of_a_process() -> None:
    found = counted(
        *send(0, 1, OK, 2),
        *send(0, 2, OK, 0),
        *send(1, 3, OK, 1),
        *poll((0, 2), (1, 3), (2, 1)),
        *poll((0, 2), (1, 3), (2, 1)),
    )
    assert found["acknowledged"] == {"1": 3}
    assert found["out_of_order"] == 1


def test_nothing_was_sent() -> None:
    found = counted(*poll())
    assert (found["acknowledged"], found["copies"], found["out_of_order"]) == ({}, 0, 0)
