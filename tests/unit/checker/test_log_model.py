"""What the log-model check makes of a run's events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checker.checks import log_model
from checker.tables.buckets_of_a_history import Source
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result

DONE = {"event": "steps", "detail": "9 of 9, 0 of them left out", "done": 9, "asked": 9, "seconds": 2.0}
PARTED = {
    "event": "divergence",
    "detail": "offsets in order",
    "seen": "start 2, stable 1",
    "step": 7,
    "actions": 3,
    "program": "programs/1.log",
    "said": "shrunk in 8 replays",
}
COUNTS = {"log-append": {"ok": 4, "fail": 1}, "log-read-all": {"ok": 3}}


def judged(folder: Path, events: list[dict[str, Any]] | None, counts: Any = COUNTS, **meta: Any) -> Result:
    if events is not None:
        (folder / "events").mkdir()
        (folder / "events" / "harness.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    facts = {"ops": 18, "counts": counts, "doubts": [], **meta}
    return log_model.check(Source(None, (), facts, noted=folder), CheckOptions())


def test_all_steps_done_and_nothing_found_is_valid(tmp_path: Path) -> None:
    found = judged(tmp_path, [DONE])
    assert (found.valid, found.reasons, found.anomalies) == ("valid", (), ())
    assert found.statistics["steps"] == 9 and found.statistics["seconds"] == 2.0


def test_a_divergence_is_invalid_whatever_else_was_not_done(tmp_path: Path) -> None:
    found = judged(tmp_path, [PARTED])
    (anomaly,) = found.anomalies
    assert (found.valid, found.promised, anomaly.name, anomaly.count) == (
        "invalid",
        True,
        "log-divergence",
        1,
    )
    assert anomaly.witnesses[0]["over"] == "offsets in order" and anomaly.witnesses[0]["step"] == 7


@pytest.mark.parametrize(
    ("events", "counts", "expected"),
    [
        (None, COUNTS, "which is missing or unreadable"),
        ([], COUNTS, "not all steps were executed: the run ended early"),
        ([DONE | {"done": 5, "detail": "5 of 9"}], COUNTS, "not all steps were executed: 5 of 9"),
        ([DONE], {"log-append": {"ok": 1}, "log-read": {"fail": 2}}, "no log-read ever succeeded"),
        ([DONE], {}, "no log-append ever succeeded"),
        ([DONE, {"event": "trouble", "detail": "n2 is gone"}], COUNTS, "n2 is gone"),
    ],
)
def test_what_a_clean_bill_needs(
    tmp_path: Path, events: list[dict[str, Any]] | None, counts: Any, expected: str
) -> None:
    found = judged(tmp_path, events, counts)
    assert found.valid == "unknown"
    assert any(expected in reason for reason in found.reasons)
