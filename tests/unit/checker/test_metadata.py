"""The result of the metadata check for a run folder: the verdict, the promise, the witnesses and their prose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.metadata_log import METADATA
from checker.check import check_plain
from checker.disk.metadata import witnesses
from harness.model.check_options import CheckOptions, Settings
from harness.report.text.witness_text import witness_text
from tests.unit.checker.disk.metadata_copy import Copy, copied

OPTIONS = CheckOptions(checks=("metadata",))


@pytest.fixture
def run(tmp_path: Path) -> Copy:
    copy = copied(tmp_path)
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "00000.jsonl").write_text(
        json.dumps({"schema": 1, "run": "r", "segment": 0, "wall_ns": 1, "mono_ns": 1}) + "\n"
    )
    return copy


def test_a_healthy_run_is_valid(run: Copy) -> None:
    found = check_plain(run.folder, OPTIONS)
    assert (found.valid, found.reasons, found.anomalies) == ("valid", (), ())
    assert found.statistics["metadata"]["compared"] == 148


def test_a_run_that_did_not_watch_its_quorum_is_not_judged(run: Copy) -> None:
    (run.folder / "events" / "harness.jsonl").unlink()
    found = check_plain(run.folder, OPTIONS)
    assert (found.valid, found.reasons, found.statistics) == ("valid", (), {})


def test_an_anomaly_makes_the_run_invalid_with_its_place(run: Copy) -> None:
    run.say({"node": "n1", "leader": 1}, {"high_watermark": 3})
    found = check_plain(run.folder, OPTIONS)
    assert (found.valid, found.promised) == ("invalid", True)
    assert [anomaly.name for anomaly in found.anomalies] == [witnesses.TWO_LEADERS, witnesses.WATERMARK]
    table = pq.read_table(run.folder / "results" / "witnesses" / f"{witnesses.WATERMARK}.parquet")
    assert json.loads(table.column("witness")[0].as_py())["seen"] == "high watermark 3"
    text = witness_text(witnesses.TWO_LEADERS, found.anomalies[0].witnesses[0], None)
    assert text.startswith("Where: epoch 3. Seen: 1 leads") and text.endswith("Expected: one leader.")


def test_nothing_is_promised_if_a_fault_destroyed_copies(run: Copy) -> None:
    run.say({"high_watermark": 3})
    settings = replace(Settings(), damaged_copies=1)
    assert check_plain(run.folder, replace(OPTIONS, settings=settings)).promised is None


def test_missing_evidence_is_unknown(run: Copy) -> None:
    (run.folder / "events" / "quorum.jsonl").unlink()
    assert check_plain(run.folder, OPTIONS).valid == "unknown"


def test_every_kind_of_witness_has_a_row() -> None:
    names = {value for name, value in vars(witnesses).items() if name.isupper()}
    assert names == set(METADATA) and names <= set(CATALOGUE)
    assert all(row.kind == "metadata" and row.guarantee is not None for row in METADATA.values())
