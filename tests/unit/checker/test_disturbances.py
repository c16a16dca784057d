"""When leaders of share partitions may have moved."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from checker.kernels.disturbances import FOREVER, SETTLE_NS, disturbances, durations
from checker.tables.schema import NEMESIS
from harness.model.check_options import Settings

STAYS = Settings(broker={"auto.leader.rebalance.enable": "false"})
Row = tuple[int, str, str, str, str]  # time, f, fault, span, phase


def nemesis(*rows: Row) -> pa.Table:
    cells = [(at, time_ns, f, "{}", fault, span, phase) for at, (time_ns, f, fault, span, phase) in enumerate(rows)]
    columns = list(zip(*cells, strict=True)) or [()] * len(NEMESIS)
    return pa.table(
        [pa.array(list(column), field.type) for column, field in zip(columns, NEMESIS, strict=True)], NEMESIS
    )


def of(fault: str, begin: int, end: int) -> list[Row]:
    """A fault that begins and ends at these times."""
    return [
        (begin, "kill", fault, "start", "invoke"),
        (begin + 1, "kill", fault, "start", "complete"),
        (end - 1, "start", fault, "stop", "invoke"),
        (end, "start", fault, "stop", "complete"),
    ]


def touched(table: pa.Table, settings: Settings, low: int, high: int) -> bool:
    return bool(disturbances(table, settings).between(np.array([low]), np.array([high]))[0])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 99, False),
        (0, 100, True),
        (150, 160, True),
        (200 + SETTLE_NS, 1 << 50, True),
        (201 + SETTLE_NS, 1 << 50, False),
    ],
)
def test_a_fault_counts_until_leaders_have_settled(low: int, high: int, expected: bool) -> None:
    assert touched(nemesis(*of("kill:leader", 100, 200)), STAYS, low, high) is expected


def test_leaders_may_move_back_at_any_time() -> None:
    table = nemesis(*of("kill:leader", 100, 200))
    assert touched(table, Settings(), 1 << 50, 1 << 51)
    assert not touched(table, Settings(), 0, 99)


def test_a_fault_that_did_not_end_lasts() -> None:
    table = nemesis(*of("isolate:leader", 100, 200)[:2])
    assert touched(table, STAYS, 1 << 50, 1 << 51)
    assert durations(table) == [(100, FOREVER - 100)]


def test_faults_on_clients_move_no_leader_but_hide_acquisitions() -> None:
    table = nemesis(*of("pause:client", 100, 200))
    assert not touched(table, Settings(), 0, 1 << 50)
    assert durations(table) == [(100, 100 + SETTLE_NS)]


def test_faults_that_overlap_are_one_disturbance() -> None:
    found = disturbances(nemesis(*of("kill:leader", 100, 200), *of("pause:leader", 300, 400)), STAYS)
    assert (found.begins.tolist(), found.ends.tolist()) == ([100], [400 + SETTLE_NS])
