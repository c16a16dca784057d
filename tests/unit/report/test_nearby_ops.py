"""The ops around a place of a key."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli import app
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory, BadInput
from harness.model.op import FAIL, INFO, INVOKE, OK, Op
from harness.report.text import nearby_ops
from harness.report.text.nearby_ops import Place, Seen


def op(index: int, process: int, type_: str, f: str, value: Any, error: str | None = None) -> Op:
    return Op(index, index * 1_000_000, process, type_, f, value, error)


OPS = [
    op(0, 0, INVOKE, "txn", [["send", 7, 100], ["send", 8, 7], ["poll"]]),
    op(1, 0, OK, "txn", [["send", 7, [10, 100]], ["send", 8, [7, 7]], ["poll", [[7, [[8, 98], [12, 102]]]]]]),
    op(2, 1, INVOKE, "send", [["send", 7, 101]]),
    op(3, 1, FAIL, "send", [["send", 7, [11, 101]]], "aborted"),
    op(4, 2, INVOKE, "poll", [["poll"]]),
    op(5, 2, OK, "poll", [["poll", [[8, [[10, 5]]], [7, [[n, n + 90] for n in range(20)]]]]]),
    op(6, 3, INVOKE, "send", [["send", 7, 104], ["send", 7, 105]]),
    op(7, 4, INVOKE, "send", [["send", 7, 104]]),
    op(8, 4, INFO, "send", [["send", 7, 104]], "timed out"),
    op(9, 2, INVOKE, "assign", [7]),
    op(10, 2, OK, "assign", [7]),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "20260102T030405-some"
    (folder / "history").mkdir(parents=True)
    text = op_json.header("some", 0, 0, 0) + b"".join(map(op_json.encode, OPS[:6]))
    (folder / "history" / "00000.jsonl").write_bytes(text)
    text = op_json.header("some", 1, 0, 0) + b"".join(map(op_json.encode, OPS[6:])) + b'{"index":11,"ti'
    (folder / "history" / "00001.jsonl").write_bytes(text)
    return folder


def found(run: Path, key: Any, offset: int | None = None, value: Any = None, n: int = 3) -> list[Op]:
    return list(nearby_ops.find(run, Place(key, offset, value, n), Seen()))


def test_around_an_offset_ops_are_trimmed_to_the_records_within_n(run: Path) -> None:
    assert [(one.index, one.value) for one in found(run, 7, offset=10, n=2)] == [
        (1, [["send", 7, [10, 100]], ["poll", [[7, [[8, 98], [12, 102]]]]]]),
        (3, [["send", 7, [11, 101]]]),
        (5, [["poll", [[7, [[8, 98], [9, 99], [10, 100], [11, 101], [12, 102]]]]]]),
    ]
    assert [(one.index, one.value) for one in found(run, 7, offset=19, n=0)] == [(5, [["poll", [[7, [[19, 109]]]]]])]


def test_around_a_value_positions_in_the_polled_list_count(run: Path) -> None:
    one, two = found(run, 7, value=102, n=1)
    assert one.value == [["poll", [[7, [[8, 98], [12, 102]]]]]]
    assert two.value == [["poll", [[7, [[11, 101], [12, 102], [13, 103]]]]]]


def test_sends_of_a_value_are_found_without_their_offset_and_one_that_never_completed_comes_last(
    run: Path,
) -> None:
    polled, unsure, never = found(run, 7, value=104, n=0)
    assert (polled.index, unsure.index, never.index) == (5, 8, 6)
    assert never.type == INVOKE and never.value == [["send", 7, 104]]
    assert " open " in nearby_ops.text(never, Place(7, None, 104, 0))


def test_a_line_says_who_when_and_what_and_marks_the_place(run: Path) -> None:
    place = Place(7, 11, None, 1)
    lines = [nearby_ops.text(one, place) for one in nearby_ops.find(run, place, Seen())]
    assert " ".join(lines[1].split()) == "0.003 s op 3 process 1 send fail sent [11:101] (aborted)"
    assert lines[2].endswith("polled 10:100 [11:101] 12:102")


@pytest.mark.parametrize("packed", [False, True])
def test_a_history_file_is_read_too(run: Path, tmp_path: Path, packed: bool) -> None:
    data = (run / "history" / "00000.jsonl").read_bytes()
    file = tmp_path / ("history.jsonl.gz" if packed else "history.jsonl")
    file.write_bytes(gzip.compress(data) if packed else data)
    assert [one.index for one in found(file, 7, offset=10, n=0)] == [1, 5]


@pytest.mark.parametrize("key", ["a", "ä", "[1, 7, 2]", '"7"'])
def test_keys_may_be_of_any_type(tmp_path: Path, key: str) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(op_json.encode(op(0, 0, OK, "send", [["send", nearby_ops.given(key), [0, "x y"]]])))
    assert len(found(file, nearby_ops.given(key), value="x y")) == 1
    assert found(file, 7, value="x y") == []


def test_a_bad_line_before_the_end_is_named(run: Path) -> None:
    path = run / "history" / "00000.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"type":"fail"', b'"typ":"fail"'))
    with pytest.raises(BadHistory, match=r"00000\.jsonl, line 5"):
        found(run, 7, offset=10)


def test_an_unknown_key_is_bad_input_and_an_empty_place_is_said(run: Path) -> None:
    seen, place = Seen(), Place(9, 10, None, 3)
    assert list(nearby_ops.find(run, place, seen)) == []
    with pytest.raises(BadInput, match="key 9: no operation"):
        nearby_ops.require(seen, place, run)
    seen, place = Seen(), Place(7, 500, None, 3)
    assert list(nearby_ops.find(run, place, seen)) == []
    assert nearby_ops.require(seen, place, run) == "key 7: no operation sent or polled a record within 3 offsets of 500"


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["around", str(run), "--key", "7", "--offset", "10", "-n", "0", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["index"] for line in lines] == [1, 5]
    assert app.invoke(["around", str(run), "--key", "7", "--value", "12345", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "no operation sent or polled value 12345" in captured.err
    assert app.invoke(["around", str(run), "--key", "9", "--offset", "1"]) == 254
    assert "key 9: no operation" in capsys.readouterr().err
    for wrong in ([], ["--offset", "1", "--value", "2"]):
        assert app.invoke(["around", str(run), "--key", "7", *wrong]) == 254
        assert "either --offset or --value" in capsys.readouterr().err


def test_edn_is_refused_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "history.edn").write_text("{}")
    assert app.invoke(["around", str(tmp_path / "history.edn"), "--key", "7", "--offset", "1"]) == 254
    assert "harness import" in capsys.readouterr().err
