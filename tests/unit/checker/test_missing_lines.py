"""Missing lines of a history: how ops with only an invocation or only a completion are interpreted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checker.check import check_plain
from checker.kernels.missing_lines import gap, lines_missing, may_lie_between
from checker.tables import make_tables
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadHistory
from tests.unit.checker.test_ingest import POLL, SEND, op, text, written

BEGUN: list[dict[str, Any]] = [*SEND, op(2, 3, "invoke", "send", [["send", 1, 8]])]


def ops(folder: Path, *lines: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The rows of OPS, by index."""
    return {row["index"]: row for row in make_tables.collect(written(folder, text(*lines))).ops.to_pylist()}


def test_a_process_that_continues_after_a_gap_completed_in_it(tmp_path: Path) -> None:
    rows = ops(tmp_path, *BEGUN, op(5, 3, "invoke", "poll", [["poll"]]), op(6, 3, "ok", "poll", [["poll", []]]))
    assert (rows[2]["type"], rows[2]["complete_ns"]) == ("info", None)
    assert (rows[6]["type"], rows[6]["invoke_index"], rows[6]["invoke_ns"]) == ("ok", 5, 50)


def test_a_completion_after_a_gap_was_invoked_in_it_at_the_earliest(tmp_path: Path) -> None:
    """Therefore no order in time is inferred that may be wrong."""
    rows = ops(tmp_path, *SEND, op(4, 3, "invoke", "poll", [["poll"]]), op(9, 4, "ok", "poll", [["poll", []]]))
    assert (rows[9]["invoke_index"], rows[9]["invoke_ns"], rows[9]["complete_ns"]) == (2, 10, 90)


def test_a_completion_of_another_f_belongs_to_an_invocation_in_the_gap(tmp_path: Path) -> None:
    rows = ops(tmp_path, *BEGUN, op(6, 3, "ok", "poll", [["poll", []]]))
    assert {index: row["f"] for index, row in rows.items()} == {1: "send", 2: "send", 6: "poll"}
    assert (rows[2]["type"], rows[6]["invoke_index"]) == ("info", 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (op(7, 3, "invoke", "poll", [["poll"]]), "invokes again while its op 6 is open"),
        (op(7, 3, "ok", "poll", [["poll", []]]), "process 3 completes 'poll', but had invoked 'send'"),
    ],
)
def test_behind_the_last_gap_ops_are_whole(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    lines = [*SEND, op(6, 3, "invoke", "send", [["send", 1, 8]]), line]
    with pytest.raises(BadHistory, match=f"line 4: .*{message}"):
        check_plain(written(tmp_path, text(*lines)), CheckOptions())


def test_a_retired_process_may_only_complete_in_a_gap(tmp_path: Path) -> None:
    retired = [op(0, 0, "invoke", "send", [["send", 1, 7]]), op(1, 0, "info", "send", [["send", 1, 7]])]
    again = op(4, 0, "ok", "poll", [["poll", []]])
    assert ops(tmp_path, *retired, again)[4]["invoke_index"] == 2
    with pytest.raises(BadHistory, match="line 3: process 0 completes an op after its op"):
        check_plain(written(tmp_path, text(*retired, {**again, "index": 2})), CheckOptions())


def test_where_lines_are_missing(tmp_path: Path) -> None:
    whole = {"missing": None, "doubts": [], "truncated": None}
    assert not lines_missing(whole) and gap(whole) is None
    assert lines_missing({**whole, "truncated": "cut off"}) and gap({**whole, "truncated": "cut off"}) is None
    older = {"doubts": ["h.jsonl, line 3: index 7 after 4, so ops are missing"], "truncated": None}
    assert lines_missing(older)
    after, until = np.array([0, 3, 4, 6, 7, 9]), np.array([4, 5, 7, 8, 9, 12])
    assert may_lie_between({"missing": [4, 7]}, after, until).tolist() == [False, True, True, True, False, False]
    assert may_lie_between(older, after, until).all()
    assert not may_lie_between(whole, after, until).any()


def test_what_shrink_chose_of_a_history_is_vouched_for(tmp_path: Path) -> None:
    """The shrunk history states what it omits, so nothing unknown is missing; but it is never valid."""
    header = op_json.header("r", 0, 0, 0, shrunk_from="r").decode().strip()
    lines = [*SEND, *({**line, "index": line["index"] + 5} for line in POLL)]
    found = make_tables.collect(written(tmp_path, text(header, *lines))).meta
    assert found["missing"] is None and len(found["doubts"]) == 1 and not lines_missing(found)
    assert check_plain(tmp_path / "h.jsonl", CheckOptions()).valid == "unknown"


def test_the_first_and_the_last_gap_are_noted(tmp_path: Path) -> None:
    lines = [*SEND, *({**line, "index": line["index"] + more} for line, more in zip(POLL, (3, 9), strict=True))]
    assert make_tables.collect(written(tmp_path, text(*lines))).meta["missing"] == (1, 12)
