"""The plain kernels give Jepsen's answers on every row of tests/histories/jepsen."""

from __future__ import annotations

from itertools import groupby

import pytest

from checker.check import judge
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.model.check_result import to_data
from tests.unit.checker import jepsen

ROWS = {name: list(rows) for name, rows in groupby(jepsen.rows(), key=lambda row: row["history"])}


def test_every_history_is_there() -> None:
    assert len(ROWS) == 185
    assert sum(map(len, ROWS.values())) == 740
    crashes = {row.get("jepsen_crashes_with") for rows in ROWS.values() for row in rows} - {None}
    assert crashes == set(jepsen.CRASHES)


@pytest.mark.parametrize("name", ROWS)
def test_same_answers(name: str) -> None:
    rows = ROWS[name]
    source = in_memory(make_tables.collect(jepsen.history(rows[0])))
    for row in rows:
        result = judge(source, jepsen.options(row))
        assert jepsen.differences(row, to_data(result)) == [], (row["ww_deps"], row["sub_via"])


@pytest.mark.parametrize("name", sorted(ROWS.keys() - jepsen.OTHER_LAG))
def test_worst_realtime_lag(name: str) -> None:
    """The size and time of the worst lag; any of several keys with the same lag may be named."""
    row = ROWS[name][0]
    if "jepsen_crashes_with" in row:
        return
    result = judge(in_memory(make_tables.collect(jepsen.history(row))), jepsen.options(row))
    lag = result.statistics["worst_realtime_lag"] or {"lag_ns": 0, "time_ns": 0, "process": None}
    expected = row["worst_realtime_lag"]
    assert lag["lag_ns"] / 1e9 == pytest.approx(expected["lag"], abs=1e-9)
    assert lag["time_ns"] / 1e9 == pytest.approx(expected["time"], abs=1e-9)
    assert lag["process"] == expected.get("process")


def test_lag_of_sends_without_offset() -> None:
    """The one allowed difference: our lag counts the offset that Jepsen omits."""
    row = ROWS["lag-nil-send-a"][0]
    result = judge(in_memory(make_tables.collect(jepsen.history(row))), jepsen.options(row))
    assert row["worst_realtime_lag"]["lag"] == 0
    assert result.statistics["worst_realtime_lag"]["lag_ns"] == 1_000
