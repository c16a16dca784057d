"""Stored results of experiments, and the track record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cluster.distribution.versions import DEFAULT
from harness.experiments import record, report
from harness.experiments.expectations import Expectation
from harness.experiments.run import Attempt, Tried
from harness.experiments.spec import Case, Experiment
from harness.experiments.time_to_detection import Detection
from harness.model.errors_and_exit_codes import BadInput

BAD = Case("bad", "it shows", {"acks": "1", "cluster": "mock"}, Expectation({"lost-write": 1}), 2)
FIXED = Case("fixed", "it does not", {"acks": "all"}, Expectation(never=("invalid",)), 2)


def attempt(*answers: bool, valid: str = "invalid", after_s: float | None = None) -> Attempt:
    found = None if after_s is None else Detection(after_s, int(after_s * 100))
    return Attempt(1, valid, answers, 20.0, detection=found)


def written(folder: Path, began: str, *seen: bool) -> Path:
    chosen = Experiment("acks-1", "loses", "because", "somewhere", "bug", (BAD, FIXED), Path("acks-1.yaml"))
    bad = Tried(BAD, [attempt(each, after_s=8.0 + n) for n, each in enumerate(seen)])
    fixed = Tried(FIXED, [attempt(True, valid="valid"), attempt(True, valid="unknown")])
    report.write(folder, chosen, [bad, fixed], began)
    return folder


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    bad, fixed = record.entries(written(tmp_path, "2026-01-02T03:04:05Z", True, True, True))
    assert bad.expected == (("lost-write", 3, 3, True),)
    assert bad.detected_s == (8.0, 9.0, 10.0) and bad.detected_ops == (800, 900, 1000)
    assert bad.command == "harness experiment run acks-1 --case bad"
    assert bad.versions.startswith("mock, confluent ") and fixed.versions.startswith(f"Kafka {DEFAULT}, confluent ")
    assert fixed.expected == (("nothing invalid", 1, 1, True),) and fixed.unknown == 1


def test_the_report_has_only_columns_that_apply() -> None:
    ran = [attempt(True)]
    lossy = report.rows([Tried(BAD, ran), Tried(FIXED, ran)])
    assert not {*report.EFFECTS, "fetch wait", "min bytes", "lag", "record", "retries"} & set(lossy[0])
    assert {"case", "acks", "fault", "Kafka", "client", "runs", "as expected"} <= set(lossy[0])
    assert "loss" not in report.text(lossy) and "acks" in report.text(lossy)
    figures = {"delivery": {"lost": 1, "phantoms": 0, "duplicates": 0}}
    plan = {"workload": "delivery", "broker_config": {"replica.fetch.min.bytes": "5"}}
    study = Case("study", "counted", plan, Expectation(), 1)
    counted = report.rows([Tried(study, [Attempt(1, "invalid", (), 20.0, figures=figures)])])
    assert counted[0]["loss"] == "1 of 1: 1" and counted[0]["min bytes"] == "5" and "lag" not in counted[0]
    assert "1 of 1: 1" in report.text(counted)


def test_the_track_record_has_rates_medians_and_what_disagrees(tmp_path: Path) -> None:
    found = record.entries(written(tmp_path, "2026-01-02T03:04:05Z", True, True, False))
    text = record.markdown(found, "harness experiment run --all")
    assert "2 of 3 (21% to 94%) **disagrees**" in text
    assert "9.0 s, 900 ops" in text and "1 unknown" in text
    assert "2 cases, 1 not as expected." in text and "runs of 2026-01-02." in text


def test_of_each_case_its_last_time_counts(tmp_path: Path) -> None:
    old = record.entries(written(tmp_path / "old", "2026-01-01T00:00:00Z", False))
    new = record.entries(written(tmp_path / "new", "2026-01-02T00:00:00Z", True))
    assert record.newest([*new, *old]) == new


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"schema": 1, "cases": [1]}), '{"schema": 9}'])
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / record.FILE).write_text(text)
    with pytest.raises(BadInput, match=r"results\.json"):
        record.entries(tmp_path)
