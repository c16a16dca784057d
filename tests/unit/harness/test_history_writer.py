"""The write-ahead log and the run folders."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest

from harness import history_writer
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory, BadInput, Missing
from harness.model.op import Op


def lines(folder: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def test_every_line_is_there_before_close_and_segments_roll(tmp_path: Path) -> None:
    rolled: list[Path] = []
    log = history_writer.HistoryLog(tmp_path, "r", time.monotonic_ns(), segment_bytes=500, on_roll=rolled.append)
    for index in range(20):
        log.append(op_json.encode(Op(index, index, 0, "invoke", "send", [["send", 1, index]])))
    read = lines(tmp_path)  # not closed yet, as after a kill of the harness
    assert [row["index"] for row in read if "index" in row] == list(range(20))
    headers = [row for row in read if "schema" in row]
    assert [row["segment"] for row in headers] == list(range(len(headers)))
    assert len(rolled) == len(headers) - 1 >= 2
    log.close()
    log.close()


def test_header_clocks_belong_together(tmp_path: Path) -> None:
    zero_ns = time.monotonic_ns() - 5_000_000_000
    with history_writer.HistoryLog(tmp_path, "r", zero_ns):
        pass
    header = lines(tmp_path)[0]
    assert header["mono_ns"] == zero_ns
    assert abs(int(str(header["wall_ns"])) - (time.time_ns() - 5_000_000_000)) < 1_000_000_000


def test_runs_get_names_of_their_own_and_latest_points_at_the_last(tmp_path: Path) -> None:
    first, second = history_writer.new_run(tmp_path, "queue"), history_writer.new_run(tmp_path, "queue")
    assert first != second
    history_writer.point_latest(first)
    history_writer.point_latest(second)
    assert (tmp_path / "latest").resolve() == second


def test_a_runs_folder_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Missing, match="use --runs"):
        history_writer.new_run(tmp_path / "file", "queue")


def test_require_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="harness list"):
        history_writer.require_run(tmp_path / "nope")
    with pytest.raises(BadInput, match="no history"):
        history_writer.require_run(tmp_path)


def test_codec_round_trip_and_garbage() -> None:
    op = Op(3, 4, 5, "info", "txn", [["send", 1, [None, 2]], ["poll", [[1, [[0, 1]]]]]], "why", {"final": True})
    assert op_json.decode(op_json.encode(op)) == op
    for garbage in (
        b"{",
        b"[]",
        b'{"index":1}',
        b'{"index":0,"time_ns":0,"process":0,"type":"x","f":"a","value":1}',
    ):
        with pytest.raises(BadHistory, match="here"):
            op_json.decode(garbage, "here")
