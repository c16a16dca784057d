"""Malformed histories are refused with their position, or judged but not valid. In both formats."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from checker.check import check_each, check_many, check_plain
from checker.tables import read_history
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result
from harness.model.edn import fast_path
from harness.model.errors_and_exit_codes import BadHistory
from tests.unit.checker import jepsen
from tests.unit.checker.test_ingest import POLL, SEND, op

FORMS = ("h.jsonl", "h.edn", "h.edn.gz")
COMPATIBLE = CheckOptions(jepsen_compatible=True)
INFO = op(1, 0, "info", "send", [["send", 1, 7]])
NEMESIS = op(0, "nemesis", "info", "kill", {"took_effect": True}, fault="kill:leader", phase="complete")
OTHER = [{**line, "index": line["index"] - 2} for line in POLL]


def written(folder: Path, name: str, ops: list[dict[str, Any]]) -> Path:
    if name == "h.jsonl":
        content = b"".join(op_json.encode(op_json.from_data(one)) for one in ops)
    else:
        content = "".join(fast_path.text_of(one) + "\n" for one in ops).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder / name


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "unknown type": ([SEND[0], {**SEND[1], "type": "okay"}], "line 2: unknown op type 'okay'"),
    "duplicate index": ([SEND[0], SEND[1], {**POLL[0], "index": 1}], "line 3: index 1 after 1"),
    "index that goes back": ([*POLL, SEND[0]], "line 3: index 0 after 3"),
    "completed and never invoked": ([{**SEND[1], "index": 0}], "line 1: process 0 completes an op as ok without"),
    "completed twice": ([*SEND, {**SEND[1], "index": 2}], "line 3: process 0 completes an op as ok without"),
    "retired": (
        [SEND[0], INFO, {**SEND[1], "index": 2, "time_ns": 20}],
        "line 3: process 0 completes an op after its op 1 was info, which must be the last op",
    ),
    "failed and never invoked": (
        [*SEND, {**POLL[1], "index": 2, "type": "fail", "process": "p"}],
        "line 3: process 'p' completes an op as fail without an invocation",
    ),
    "value that does not fit": ([SEND[0], {**SEND[1], "value": 7}], "line 2: the value of a send"),
    "offset that does not fit": (
        [SEND[0], {**SEND[1], "value": [["send", 1, ["x", 7]]]}],
        "line 2: offset 'x' of a send",
    ),
    "times that are none": ([{**SEND[0], "time_ns": "soon"}], "line 1: not an op .time 'soon'"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str, form: str) -> None:
    ops, message = REFUSED[name]
    path = written(tmp_path, form, ops)
    for options in (CheckOptions(), COMPATIBLE):
        with pytest.raises(BadHistory, match=f"{re.escape(form)}, {message}"):
            check_plain(path, options)


DOUBTED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "time that goes back": (
        [*SEND, {**POLL[0], "time_ns": 5}, {**POLL[1], "time_ns": 40}],
        "line 3: time goes back, from 10 to 5",
    ),
    "missing op": ([*SEND, {**POLL[0], "index": 3}, {**POLL[1], "index": 4}], "line 3: index 3 after 1, so"),
    "missing beginning": (POLL, "line 1: index 2 after -1, so ops are missing"),
    "only a nemesis": ([NEMESIS], "contains no "),
    "nothing": ([], "contains no "),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DOUBTED)
def test_not_valid(tmp_path: Path, name: str, form: str) -> None:
    ops, reason = DOUBTED[name]
    path = written(tmp_path, form, ops)
    for options in (CheckOptions(), COMPATIBLE):
        result = check_plain(path, options)
        # By Jepsen's rules a value without a sender counts, though the send may be in a missing line.
        by_absence = name == "missing beginning" and options is COMPATIBLE
        assert result.valid == ("invalid" if by_absence else "unknown")
        assert any(reason in given for given in result.reasons), result.reasons


def test_what_is_no_client_may_speak_unasked(tmp_path: Path) -> None:
    """Info of a process that is not a client, without invocation, as Jepsen's nemeses write it."""
    ops = [*SEND, *POLL, op(4, "chaos", "info", "start", None), op(5, "chaos", "info", "start", None)]
    for form in FORMS:
        assert check_plain(written(tmp_path, form, ops), COMPATIBLE).valid == "valid"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opener", ["[", "{", '{"a":', "#{", "#a ", "[[[1] "])
def test_deep_nesting(tmp_path: Path, form: str, opener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = opener.encode() * 300_000 + b"\n"
    path = written(tmp_path, form, SEND)
    whole = gzip.decompress(path.read_bytes()) if form.endswith("gz") else path.read_bytes()
    path.write_bytes(gzip.compress(whole + line) if form.endswith("gz") else whole + line)
    with pytest.raises(BadHistory, match=f"{re.escape(form)}, line 3"):
        check_plain(path, CheckOptions())
    monkeypatch.setattr(read_history, "MAX_LINE", 200_000)
    with pytest.raises(BadHistory, match=f"{re.escape(form)}, line 3: longer than"):
        check_plain(path, CheckOptions())


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000, 1 << 20])
def test_blocks_of_any_size_hold_the_same_lines(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank lines, a line longer than many blocks, and no newline at the end."""
    path = written(tmp_path, "h.edn", [*SEND, {**POLL[0], "error": "x" * 300}, POLL[1]])
    path.write_bytes(b"\n\n" + path.read_bytes().replace(b"\n", b"\n\n", 2)[:-1])
    expected = list(read_history.read(path, read_history.Notes()))
    assert [line.number for line in expected] == [3, 5, 7, 8]
    monkeypatch.setattr(read_history, "BLOCK", size)
    assert list(read_history.read(path, read_history.Notes())) == expected
    if size <= 100:
        monkeypatch.setattr(read_history, "MAX_LINE", 250)
        with pytest.raises(BadHistory, match=r"h\.edn, line 7: longer than"):
            list(read_history.read(path, read_history.Notes()))


def test_deep_nesting_that_is_well_formed(tmp_path: Path) -> None:
    """JSON that orjson accepts, but nested deeper than later code can handle."""
    deep: Any = 1
    for _ in range(400):
        deep = [deep, {"a": 2}]
    for value in ([["send", 1, deep]], [["send", deep, 1]], [["poll", [[1, [[0, deep]]]]]], deep):
        path = tmp_path / "h.jsonl"
        path.write_bytes(b"".join(op_json.encode(op_json.from_data(line)) for line in SEND))
        with path.open("a") as stream:
            text = str(op(2, 1, "ok", "poll", value)).replace("'", '"')
            stream.write(text + "\n")
        with pytest.raises(BadHistory, match="line 3: nested deeper than 64"):
            check_plain(path, CheckOptions())


@pytest.mark.parametrize("form", ["h.jsonl", "h.edn"])
def test_bytes_that_are_no_text(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, form, [*SEND, *POLL])
    content = path.read_bytes().splitlines(keepends=True)
    content[1] = content[1].replace(b"ok", b"o\xff", 1)
    path.write_bytes(b"".join(content))
    with pytest.raises(BadHistory, match=f"{form}, line 2: not"):
        check_plain(path, CheckOptions())


def test_one_bad_history_of_many_leaves_the_others_judged(tmp_path: Path) -> None:
    bad = written(tmp_path, "h.edn", REFUSED["retired"][0])
    good = jepsen.FOLDER / "a-G-single.edn.gz"
    answers = check_many(None, [good, bad, good], COMPATIBLE)
    assert [Path(path) for path, _ in answers] == [good, bad, good]
    first, wrong, last = (answer for _, answer in answers)
    assert isinstance(first, Result) and first == last and first.valid == "valid"
    assert isinstance(wrong, dict) and "must be the last op" in wrong["error"] and wrong["exit_code"] == 2
    each = list(check_each(None, [(good, COMPATIBLE), (bad, COMPATIBLE), (tmp_path, COMPATIBLE)]))
    assert each[:2] == [answers[0], answers[1]]
    assert "no history" in each[2][1]["error"]  # type: ignore[index]
