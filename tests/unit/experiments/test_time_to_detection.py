"""When an anomaly could first be proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiments import time_to_detection
from harness.experiments.time_to_detection import Detection
from harness.model import op_json
from harness.model.op import INVOKE, OK, Op

S = 1_000_000_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    ops = [
        Op(n, n * S, 0, INVOKE if n % 2 == 0 else OK, "poll", [["poll"]] if n % 2 == 0 else [["poll", []]])
        for n in range(10)
    ]
    (tmp_path / "history").mkdir()
    lines = [op_json.header("r", 0, 0, 0), *map(op_json.encode, ops)]
    (tmp_path / "history" / "00000.jsonl").write_bytes(b"".join(lines))
    return tmp_path


def test_what_was_seen_is_proved_by_its_earliest_witness(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witnesses = [{"writer": 1, "reader": 7}, {"writer": 2, "reader": 5}, {"key": 3}]
    monkeypatch.setattr("harness.report.text.witness_lookup.stored", lambda folder, name: iter(witnesses))
    assert time_to_detection.first(run, ["G1a"]) == Detection(5.0, 3)


def test_missing_records_are_proved_at_the_end(run: Path) -> None:
    assert time_to_detection.first(run, ["lost-write"]) == Detection(9.0, 5)


def test_without_an_op_there_is_no_proof(run: Path, tmp_path: Path) -> None:
    assert time_to_detection.first(run, []) is None
    assert time_to_detection.first(run, ["G1a"]) is None  # no witnesses are stored
    assert time_to_detection.first(tmp_path / "nowhere", ["lost-write"]) is None
