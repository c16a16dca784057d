"""Tables made segment by segment equal those that one process makes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checker.check import check_plain
from checker.tables import join_segments, make_tables, read_tables, schema, segment_tables
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadHistory
from tests.bench import histories
from tests.bench.histories import Shape

BUCKETS = 3


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_segments, "PIECE_BYTES", 12_000)
    monkeypatch.setattr(join_segments, "ROLL_BUCKETS", BUCKETS)


def _log(folder: Path, lines: list[dict[str, Any]], segment: int = 100, torn: bool = False) -> Path:
    """A run folder with a history in segments with this many lines."""
    (folder / "history").mkdir(parents=True)
    for number, low in enumerate(range(0, len(lines), segment)):
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines[low : low + segment])
        if torn and low + segment >= len(lines):
            content = content[:-7]
        file = folder / "history" / f"{number:05d}.jsonl"
        file.write_bytes(op_json.header("run", number, 0, 0) + content)
    return folder


def _history(txn: bool) -> list[dict[str, Any]]:
    return list(histories.ops_of(histories.make(Shape(600, 7, txn=txn))))


def _without_completion(lines: list[dict[str, Any]], index: int) -> None:
    """Removes all later ops of a process, from some op on."""
    process = lines[index]["process"]
    later = [line for line in lines[index + 1 :] if line["process"] == process]
    for line in later:
        lines.remove(line)
    for number, line in enumerate(lines):
        line["index"] = number


def _ops(folder: Path) -> pa.Table:
    parts = read_tables.ops_columns(folder, *schema.OPS.names)
    return pa.concat_tables([part.cast(schema.OPS) for part in parts])


def _rows(folder: Path) -> dict[str, Any]:
    """Every table as one, in the order of its files."""
    found: dict[str, Any] = {"ops": _ops(folder).to_pylist()}
    for kind, form in schema.SPREAD.items():
        for bucket in range(BUCKETS):
            table = read_tables.bucket_columns(folder, kind, bucket, *form.names)
            found[f"{kind} {bucket}"] = table.to_pylist()
    for kind in schema.SMALL:
        found[kind] = pq.ParquetFile(folder / f"{kind}.parquet").read().to_pylist()
    return found


def _meta(folder: Path) -> dict[str, Any]:
    meta = make_tables.read_meta(folder)
    assert meta is not None
    return {name: value for name, value in meta.items() if name != "files"}


def _both(run: Path, rolled: int = 0) -> None:
    """Tables made in one process, and in parts after some segments were converted early, are the same."""
    files = sorted((run / "history").iterdir())
    make_tables.make(run, run / "one", BUCKETS)
    for file in files[:rolled]:
        join_segments.roll(file, run / "tables")
    found = join_segments._rolled(files[:-1], run / "tables")
    assert len(found) == rolled
    assert join_segments.in_pieces(files, run / "tables", BUCKETS, found, lambda text: None, None) is not None
    assert _meta(run / "tables") == _meta(run / "one")
    assert _rows(run / "tables") == _rows(run / "one")
    assert read_tables.texts(run / "tables") == read_tables.texts(run / "one")
    assert not (run / "tables" / segment_tables.FOLDER).exists()


@pytest.mark.parametrize("txn", [False, True])
@pytest.mark.parametrize("rolled", [0, 1, 5, 11])
def test_same_tables(tmp_path: Path, txn: bool, rolled: int) -> None:
    _both(_log(tmp_path, _history(txn)), rolled)


@pytest.mark.parametrize("rolled", [0, 4])
def test_an_op_that_never_completes(tmp_path: Path, rolled: int) -> None:
    lines = _history(True)
    invoked = next(n for n, line in enumerate(lines) if n > 130 and line["type"] == "invoke")
    _without_completion(lines, invoked)
    run = _log(tmp_path, lines)
    _both(run, rolled)
    last = _ops(run / "tables").to_pylist()[-1]
    assert (last["type"], last["complete_ns"]) == ("info", None)


@pytest.mark.parametrize("rolled", [0, 3])
def test_values_that_are_no_integers(tmp_path: Path, rolled: int) -> None:
    lines = _history(False)
    for place in (150, 151, 470, 900):
        line = next(one for one in lines[place:] if one["f"] == "poll" and one["type"] == "ok")
        line["value"] = [["poll", [[3, [[0, f"bad-payload:{place % 2}"]]]]]]
    _both(_log(tmp_path, lines), rolled)


def test_a_torn_last_line(tmp_path: Path) -> None:
    run = _log(tmp_path, _history(False), torn=True)
    _both(run, 2)
    assert "cut off" in _meta(run / "tables")["truncated"]


def test_doubts(tmp_path: Path) -> None:
    lines = _history(False)
    lines[400]["time_ns"] = 5
    lines[700]["time_ns"] = 5
    run = _log(tmp_path, lines)
    _both(run, 1)
    assert len(_meta(run / "tables")["doubts"]) == 1


def test_a_bad_line_is_reported_as_before(tmp_path: Path) -> None:
    lines = _history(False)
    lines[555]["type"] = "maybe"
    run = _log(tmp_path, lines)
    with pytest.raises(BadHistory) as alone:
        make_tables.make(run, run / "one", BUCKETS)
    join_segments.roll(run / "history" / "00000.jsonl", run / "tables")
    with pytest.raises(BadHistory) as found:
        join_segments.make(run, run / "tables", BUCKETS, lambda text: None)
    assert str(found.value) == str(alone.value)


def test_lines_of_another_hand(tmp_path: Path) -> None:
    lines = [{name: line[name] for name in reversed(line)} for line in _history(False)]
    run = _log(tmp_path, lines)
    files = sorted((run / "history").iterdir())
    assert segment_tables.scan([str(files[0])]) is None
    join_segments.roll(files[0], run / "tables")
    assert check_plain(run, CheckOptions()).valid == "valid"


def test_rolled_parts_are_used(tmp_path: Path) -> None:
    run = _log(tmp_path, _history(True))
    for file in sorted((run / "history").iterdir())[:-1]:
        join_segments.roll(file, run / "tables")
    part = run / "tables" / "ops" / "00000-00000.parquet"
    before = part.stat().st_mtime_ns
    assert check_plain(run, CheckOptions()).valid == "valid"
    assert part.stat().st_mtime_ns == before
    assert check_plain(run, CheckOptions()).valid == "valid"


@pytest.mark.parametrize("segment", [0, 3])
def test_a_segment_that_changed_after_it_was_rolled(tmp_path: Path, segment: int) -> None:
    run = _log(tmp_path, _history(True))
    files = sorted((run / "history").iterdir())
    for file in files[:-1]:
        join_segments.roll(file, run / "tables")
    lines = files[segment].read_bytes().split(b"\n")
    place, line = next((n, line) for n, line in enumerate(lines) if b'"ok"' in line and b'["poll",[[' in line)
    polled = re.search(rb"\d+,\d+(?=\])", line[line.index(b'["poll",[[') :])
    assert polled is not None
    at = line.index(polled[0]) + len(polled[0]) - 1  # the last digit of a value
    lines[place] = line[:at] + (b"1" if line[at : at + 1] != b"1" else b"2") + line[at + 1 :]
    state = files[segment].stat()
    files[segment].write_bytes(b"\n".join(lines))
    os.utime(files[segment], ns=(state.st_atime_ns, state.st_mtime_ns))
    assert len(join_segments._rolled(files[:-1], run / "tables")) == segment
    found = check_plain(run, CheckOptions(buckets=BUCKETS))
    make_tables.make(run, run / "one", BUCKETS)
    assert _rows(run / "tables") == _rows(run / "one")
    assert found.valid != "valid"


def test_missing_lines(tmp_path: Path) -> None:
    """A process that continues after a gap may have completed in it: only the whole history tells."""
    lines = _history(True)
    gone = next(n for n, line in enumerate(lines) if n > 250 and line["type"] == "ok")
    run = _log(tmp_path, [*lines[:gone], *lines[gone + 1 :]])
    files = sorted((run / "history").iterdir())
    for file in files[:-1]:
        join_segments.roll(file, run / "tables")
    assert check_plain(run, CheckOptions(buckets=BUCKETS)).valid == "unknown"
    make_tables.make(run, run / "one", BUCKETS)
    assert _meta(run / "one")["missing"] == [gone - 1, gone + 1]
    assert _meta(run / "tables") == _meta(run / "one")
    assert _rows(run / "tables") == _rows(run / "one")
