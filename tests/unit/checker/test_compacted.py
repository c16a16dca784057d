"""The compacted check: it counts what the cleaner removed and kept, and is unknown if it removed nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from checker.check import judge
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.make_tables import of_ops
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.model.op import Op

SETTINGS = Settings(txn=True, isolation_level="read_committed", cleanup_policy="compact", record_keys=2)
FINAL = {"final": True}


def _judged(*read: tuple[int, int], checks: Sequence[str] = ("compacted",), **broker: str) -> Result:
    """Values 1 to 5 go to the record keys 1, 0, 1, 0, 1; value 4 is a tombstone. `read`: (offset, value)."""
    ops: list[Op] = []

    def done(process: int, f: str, invoked: Any, completed: Any, **extra: Any) -> None:
        for type_, value in (("invoke", invoked), ("ok", completed)):
            ops.append(Op(len(ops), len(ops) * 1000, process, type_, f, value, None, extra))

    for value in range(1, 6):
        done(0, "send", [["send", 1, value]], [["send", 1, [value - 1, value]]])
    done(9, "assign", [1], [1], seek_to_beginning=True, **FINAL)
    records = [[1, [list(each) for each in read]]]
    ends = {"positions": [[1, 5]], "ends": [[1, 0, 5]]}
    done(9, "poll", [["poll"]], [["poll", records]], **FINAL, **ends)
    return judge(in_memory(of_ops(ops)), CheckOptions(checks=tuple(checks), settings=replace(SETTINGS, broker=broker)))


def test_what_the_cleaner_removed_and_kept() -> None:
    result = _judged((2, 3), (3, 4), (4, 5))
    assert result.valid == "valid"
    assert result.statistics["compacted"] == {"replaced": 3, "removed": 2, "last": 2, "tombstones": 1, "kept": 2}


@pytest.mark.parametrize("read", [((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))])
def test_without_a_removed_record_compaction_was_not_tested(read: tuple[tuple[int, int], ...]) -> None:
    result = _judged(*read)
    assert result.valid == "unknown" and "removed no record" in result.reasons[0]


def test_a_tombstone_may_be_removed_once_it_is_older_than_brokers_keep_it() -> None:
    without_tombstone, both = ((2, 3), (4, 5)), ("queue", "compacted")
    kept = _judged(*without_tombstone, checks=both)
    assert "lost-write" in {each.name for each in kept.anomalies if each.bad}
    passing = _judged(*without_tombstone, checks=both, **{"log.cleaner.delete.retention.ms": "0"})
    assert not [each.name for each in passing.anomalies if each.bad]
    assert passing.statistics["compacted"] == {"replaced": 4, "removed": 3, "last": 1, "tombstones": 0, "kept": 1}
