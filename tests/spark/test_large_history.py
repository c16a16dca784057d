"""Code that only large histories use: a hot key shared by tasks, and tables made from segments in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.check import check
from checker.checks import queue_tasks
from checker.tables import join_segments, make_tables
from harness.model.check_options import CheckOptions
from tests.bench import histories
from tests.bench.histories import Shape
from tests.spark.test_partitioning import _run, comparable, witnesses

pytestmark = pytest.mark.spark


def test_a_hot_key_is_shared_by_tasks(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(tmp_path)
    options = CheckOptions(buckets=3)
    whole, found = check(spark, run, options, lambda text: None), witnesses(run)
    assert whole.valid == "invalid"
    monkeypatch.setattr(queue_tasks, "HOT_BYTES", 0)
    assert comparable(check(spark, run, options, lambda text: None)) == comparable(whole)
    assert witnesses(run) == found


def test_tables_from_segments(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_segments, "PIECE_BYTES", 60_000)
    histories.write_log(histories.make(Shape(2000, 5, txn=True)), tmp_path, segment_bytes=30_000)
    progress: list[str] = []
    meta = join_segments.make(tmp_path, tmp_path / "tables", 3, progress.append, spark)
    alone = make_tables.make(tmp_path, tmp_path / "alone", 3)
    assert "pieces" in progress[0]
    assert {**meta, "files": {}} == {**alone, "files": {}}
    assert check(spark, tmp_path, CheckOptions(), progress.append).valid == "valid"
