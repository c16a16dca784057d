"""Import and export: every op is preserved, the verdict is the same, and failures leave no files."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from checker import convert
from checker.check import check_plain
from checker.tables import make_tables, parquet_folder, progress
from checker.tables.read_history import Notes
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.model.edn import ops as edn_ops
from harness.model.edn import reader
from harness.model.errors_and_exit_codes import BadHistory
from harness.sim.queue.run import simulate
from tests.unit.checker import jepsen

JEPSEN = sorted(jepsen.FOLDER.glob("*.edn.gz"))
# All EDN types that JSON lacks, in ops of several shapes.
ODD = r"""
#jepsen.history.Op{:index 0, :time 1, :type :invoke, :process 0, :f :txn, :value [[:send :k 1] [:poll]]}
#jepsen.history.Op{:index 1, :time 2, :type :ok, :process 0, :f :txn, :value [[:send :k 1] [:poll {3 ()}]]}
{:index 2, :time 3, :type :info, :process :nemesis, :f :kill, :value {:n1 #{1 2} "n2" (1 2/3 1.50M \a)}}
{:index 3, :time 4, :type :invoke, :process 1, :f :assign, :value #{1 :k sym}, :seek-to-beginning? true}
{:process 1, :index 4, :time 5, :f :assign, :type :ok, :value (1 :k), :x {[1 {:a nil}] #inst "2020"}}
{:index 5, :time 6, :type :invoke, :process 1, :f :send, :value [[:send [1 2] 1234567890123456789012345N]]}
{:index 6, :time 7, :type :info, :process 1, :f :send, :error [:timeout "no \"answer\"" nil], :value nil}
{:index 7, :time 8, :type :invoke, :process 2, :f :poll, :value ((:poll))}
{:index 8, :time 9, :type :ok, :process 2, :f :poll, :value ((:poll {1 [[0 nil]], "1" [[0 ##NaN]]}))}
{:index 9, :time 10, :type :info, :process "nemesis", :f :start, :a.b/c ##-Inf, :value "caf\u00e9 \ud800"}
""".strip()


def _imported(path: Path, run: Path) -> Path:
    convert.to_log(path, run / "history", run.name, print)
    return run


def _lines(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode().splitlines()


def _same(one: Path, other: Path) -> None:
    if _lines(one) == _lines(other):
        return
    left, right = ([reader.loads(line) for line in _lines(path)] for path in (one, other))
    assert len(left) == len(right)
    for place, (a, b) in enumerate(zip(left, right, strict=True)):
        assert edn_ops.same(a, b), place


def _comparable(result: Result) -> Any:
    return json.loads(json.dumps(to_data(result), default=str))


def test_all_of_jepsens_histories_come_back(tmp_path: Path) -> None:
    assert len(JEPSEN) == 185
    for path in JEPSEN:
        run = _imported(path, tmp_path / path.name)
        convert.to_edn(run, tmp_path / "back.edn", print)
        _same(path, tmp_path / "back.edn")
        (tmp_path / "back.edn").unlink()


@pytest.mark.parametrize("name", ["a-phantom", "c045.assign", "c125.subscribe", "c213.assign"])
def test_every_form_of_a_history_gets_the_same_verdict(tmp_path: Path, name: str) -> None:
    path = jepsen.FOLDER / f"{name}.edn.gz"
    run = _imported(path, tmp_path / "run")
    for form, made in (("edn", "h.edn"), ("jsonl", "h.jsonl.gz"), ("parquet", "tables")):
        convert.FORMATS[form](run, tmp_path / made, print)
    for options in (CheckOptions(), CheckOptions(jepsen_compatible=True)):
        expected = _comparable(check_plain(path, options))
        for made in ("run", "h.edn", "h.jsonl.gz", "tables"):
            assert _comparable(check_plain(tmp_path / made, options)) == expected, made


def test_what_json_lacks_comes_back(tmp_path: Path) -> None:
    (tmp_path / "odd.edn").write_text(ODD + "\n")
    run = _imported(tmp_path / "odd.edn", tmp_path / "run")
    convert.to_edn(run, tmp_path / "back.edn", print)
    _same(tmp_path / "odd.edn", tmp_path / "back.edn")
    lines = (run / "history" / "00000.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["record"] is True
    assert json.loads(lines[1])["value"] == [["send", {"edn": ":k"}, 1], ["poll"]]
    assert "edn" not in json.loads(lines[1])  # it is a record, like most
    tables = make_tables.collect(run)
    direct = make_tables.collect(tmp_path / "odd.edn")
    assert tables.texts == direct.texts
    for name in ("ops", "sends", "polls"):
        assert getattr(tables, name).equals(getattr(direct, name)), name


def test_our_own_log_in_edn_and_back(tmp_path: Path) -> None:
    ops = simulate(11, ops=300, processes=5, keys=4, txn=True)
    log = op_json.header("r", 0, 1, 2) + b"".join(map(op_json.encode, ops))
    (tmp_path / "run" / "history").mkdir(parents=True)
    (tmp_path / "run" / "history" / "00000.jsonl").write_bytes(log)
    convert.to_edn(tmp_path / "run", tmp_path / "h.edn.gz", print)
    run = _imported(tmp_path / "h.edn.gz", tmp_path / "again")
    again = (run / "history" / "00000.jsonl").read_bytes()
    assert [json.loads(line) for line in again.splitlines()[1:]] == [json.loads(line) for line in log.splitlines()[1:]]
    convert.to_jsonl(tmp_path / "run", tmp_path / "h.jsonl", print)
    assert (tmp_path / "h.jsonl").read_bytes() == log


def test_segments_one_after_another_are_one_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "SEGMENT_BYTES", 2000)
    path = JEPSEN[20]
    run = _imported(path, tmp_path / "run")
    assert len(list((run / "history").iterdir())) > 3
    convert.to_jsonl(run, tmp_path / "h.jsonl", print)
    expected = _comparable(check_plain(path, CheckOptions()))
    assert _comparable(check_plain(run, CheckOptions())) == expected
    assert _comparable(check_plain(tmp_path / "h.jsonl", CheckOptions())) == expected


def test_a_large_file_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(progress, "EVERY", 100)
    messages: list[str] = []
    convert.to_log(JEPSEN[20], tmp_path / "history", "r", messages.append)
    assert messages and messages[0].startswith("100 lines, ")
    messages.clear()
    convert.to_parquet(JEPSEN[20], tmp_path / "tables", messages.append)
    # A stretch of usual lines counts at once, so the first message may come after more than 100 lines.
    first = re.match(r"tables: (\d+) lines, ", messages[0])
    assert first is not None and int(first[1]) >= 100


def test_bad_edn_names_line_and_column_and_leaves_nothing(tmp_path: Path) -> None:
    lines = gzip.decompress(JEPSEN[20].read_bytes()).decode().splitlines()
    lines[4] = lines[4][:30] + "]" + lines[4][30:]
    (tmp_path / "bad.edn").write_text("\n".join(lines) + "\n")
    for form in ("edn", "jsonl", "parquet"):
        with pytest.raises(BadHistory, match=r"bad\.edn, line 5, column 31: not EDN .unexpected \]"):
            convert.FORMATS[form](tmp_path / "bad.edn", tmp_path / "out", print)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.edn"]


def test_a_torn_last_line_is_left_out_and_noted(tmp_path: Path) -> None:
    content = gzip.decompress(JEPSEN[20].read_bytes())
    (tmp_path / "torn.edn").write_bytes(content[:-20])
    lines, notes = convert.to_log(tmp_path / "torn.edn", tmp_path / "history", "r", print)
    assert lines == content.count(b"\n") - 1
    assert notes.truncated == "torn.edn: cut off in its last line, which is skipped"
    assert isinstance(notes, Notes)


# --- Parquet folders --------------------------------------------------------------------------------------


def _tables(folder: Path) -> Path:
    parquet_folder.write(JEPSEN[20], folder)
    return folder


def _schema(folder: Path, **changes: Any) -> None:
    (folder / "_checksums.json").unlink()
    meta = json.loads((folder / "_schema.json").read_text())
    (folder / "_schema.json").write_text(json.dumps({**meta, **changes}))


def _other_columns(folder: Path) -> None:
    """Well-formed Parquet with another schema, and a description that matches it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = "sends/00000/00000.parquet"
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), folder / name)
    files = json.loads((folder / "_schema.json").read_text())["files"]
    _schema(folder, files={**files, name: (folder / name).stat().st_size})


DAMAGE: dict[str, tuple[Any, str]] = {
    "not finished": (lambda folder: (folder / "_schema.json").unlink(), "no _schema.json, which is written"),
    "a file gone": (lambda folder: (folder / "ends.parquet").unlink(), "'ends.parquet' is missing"),
    "a file cut": (lambda folder: (folder / "ends.parquet").write_bytes(b"PAR1"), "ends.parquet: changed since it"),
    "no checksums": (lambda folder: (folder / "_checksums.json").write_text("{"), "_checksums.json: damaged"),
    "other columns": (_other_columns, "the tables are damaged"),
    "newer": (lambda folder: _schema(folder, schema=99), "written with schema 99"),
    "absurd": (lambda folder: _schema(folder, buckets=-1), "_schema.json: damaged"),
    "undescribed": (lambda folder: _schema(folder, counts=None), "_schema.json: damaged"),
    "incomplete": (lambda folder: _schema(folder, files={"x": 1}), "'x' is missing"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_tables_are_refused(tmp_path: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    folder = _tables(tmp_path / "tables")
    assert parquet_folder.is_tables(folder)
    damage(folder)
    with pytest.raises(BadHistory, match=message) as raised:
        check_plain(folder, CheckOptions())
    assert "harness check" not in str(raised.value)


def test_other_peoples_parquet_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"key": [1]}), tmp_path / "part-0.parquet")
    with pytest.raises(BadHistory, match=r"no _schema\.json"):
        check_plain(tmp_path, CheckOptions())


def test_tables_keep_what_the_run_noted(tmp_path: Path) -> None:
    """Trouble in a run's events makes a verdict unknown, also when only its tables are checked."""
    ops = simulate(5, ops=60, processes=3, keys=3)
    run = tmp_path / "run"
    (run / "history").mkdir(parents=True)
    (run / "events").mkdir()
    (run / "history" / "00000.jsonl").write_bytes(op_json.header("r", 0, 1, 2) + b"".join(map(op_json.encode, ops)))
    (run / "events" / "harness.jsonl").write_text('{"time_ns":1,"event":"trouble","detail":"too hot"}\n')
    convert.to_parquet(run, tmp_path / "tables", print)
    for path in (run, tmp_path / "tables", run / "tables"):
        result = check_plain(path, CheckOptions())
        assert (result.valid, result.reasons) == ("unknown", ("the run had trouble: too hot",)), path
