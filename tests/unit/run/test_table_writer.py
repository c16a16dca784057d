"""Finished segments become tables during the run, and the check uses them."""

from __future__ import annotations

import time
from pathlib import Path

import orjson

from checker.check import check_plain
from checker.tables import segment_tables
from harness import history_writer
from harness.model.check_options import CheckOptions
from harness.run.table_writer import Roller
from tests.bench import histories
from tests.bench.histories import Shape

DEADLINE_S = 240.0  # the conversion has the lowest priority


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not made"
        time.sleep(0.05)


def test_segments_are_rolled(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    with (
        Roller(tmp_path / "tables") as roller,
        history_writer.HistoryLog(tmp_path / "history", "r", 0, segment_bytes=40_000, on_roll=roller.add) as log,
    ):
        for data in histories.ops_of(histories.make(Shape(700, 5))):
            log.append(orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE))
        _wait_for(tmp_path / "tables" / segment_tables.FOLDER / "00001" / segment_tables.RECORD)
    assert len(list((tmp_path / "history").iterdir())) > 2
    first = tmp_path / "tables" / "ops" / "00000-00000.parquet"
    made = first.stat().st_mtime_ns
    assert check_plain(tmp_path, CheckOptions()).valid == "valid"
    assert first.stat().st_mtime_ns == made


def test_a_run_of_one_segment_starts_no_process(tmp_path: Path) -> None:
    with Roller(tmp_path / "tables"):
        pass
    assert not (tmp_path / "tables").exists()


def test_what_cannot_be_converted_is_left(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    segment = tmp_path / "history" / "00000.jsonl"
    segment.write_text("no log\n")
    began = time.monotonic()
    with Roller(tmp_path / "tables") as roller:
        roller.add(segment)
    assert time.monotonic() - began < DEADLINE_S
    assert not (tmp_path / "tables" / segment_tables.FOLDER).exists()
