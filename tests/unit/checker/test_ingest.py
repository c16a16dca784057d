"""Histories to tables: what is read, what is skipped, and what is refused with which message."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.check import check_plain
from checker.tables import make_tables, parquet_folder, read_history, schema
from checker.tables.coding import BASE, EMPTY, Coder, decoder
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadHistory
from harness.sim.queue.run import simulate

HEADER = op_json.header("r1", 0, 1, 2).decode().strip()


def op(index: int, process: Any, kind: str, f: str, value: Any, **extra: Any) -> dict[str, Any]:
    line = {"index": index, "time_ns": index * 10, "process": process, "type": kind, "f": f, "value": value}
    return {**line, "extra": extra} if extra else line


SEND = [op(0, 0, "invoke", "send", [["send", 1, 7]]), op(1, 0, "ok", "send", [["send", 1, [0, 7]]])]
POLL = [op(2, 1, "invoke", "poll", [["poll"]]), op(3, 1, "ok", "poll", [["poll", [[1, [[0, 7]]]]]])]


def text(*lines: Any) -> str:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def written(folder: Path, content: str | bytes, name: str = "h.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def run_folder(folder: Path, *segments: str) -> Path:
    (folder / "run" / "history").mkdir(parents=True)
    for number, segment in enumerate(segments):
        (folder / "run" / "history" / f"{number:05d}.jsonl").write_text(segment)
    return folder / "run"


def test_rows(tmp_path: Path) -> None:
    tables = make_tables.collect(written(tmp_path, text(HEADER, *SEND, *POLL)))
    assert tables.meta["run"] == "r1"
    assert tables.ops.column("index").to_pylist() == [1, 3]
    assert tables.ops.column("invoke_index").to_pylist() == [0, 2]
    assert tables.sends.to_pylist() == [
        {"key": 1, "value": 7, "offset": 0, "op": 1, "mop": 0, "process": 0, "type": 0, "txn": False}
        | {"invoke_ns": 0, "complete_ns": 10}
    ]
    assert tables.polls.column("value").to_pylist() == [7]
    assert tables.meta["counts"] == {"send": {"ok": 1}, "poll": {"ok": 1}}
    assert tables.meta["last_ok_op"] == 3


def test_an_invocation_without_completion_is_info(tmp_path: Path) -> None:
    tables = make_tables.collect(written(tmp_path, text(SEND[0], *POLL)))
    rows = {row["index"]: row for row in tables.ops.to_pylist()}
    assert rows[0]["type"] == "info"
    assert rows[0]["complete_ns"] is None
    assert tables.sends.column("offset").to_pylist() == [-1]


def test_completion_in_the_next_segment(tmp_path: Path) -> None:
    run = run_folder(tmp_path, text(HEADER, SEND[0]), text(HEADER, SEND[1], *POLL))
    assert check_plain(run, CheckOptions()).valid == "valid"


def test_values_of_any_type(tmp_path: Path) -> None:
    lines = [
        op(0, 0, "invoke", "send", [["send", "k", {"a": 1}]]),
        op(1, 0, "ok", "send", [["send", "k", [0, {"a": 1}]]]),
        op(2, 1, "invoke", "poll", [["poll"]]),
        op(3, 1, "ok", "poll", [["poll", [["k", [[0, {"a": 1}], [1, None], [2, 1 << 70], [3, "7"]]]]]]),
    ]
    result = check_plain(written(tmp_path, text(*lines)), CheckOptions())
    (found,) = [anomaly for anomaly in result.anomalies if anomaly.name == "phantom-read"]
    assert {witness["key"] for witness in found.witnesses} == {"k"}
    assert [witness["value"] for witness in found.witnesses] == [None, float(1 << 70), "7"]


def test_empty_polls(tmp_path: Path) -> None:
    lines = [*SEND, op(2, 1, "invoke", "poll", [["poll"]]), op(3, 1, "ok", "poll", [["poll", [[1, []]]]])]
    tables = make_tables.collect(written(tmp_path, text(*lines)))
    assert tables.polls.column("value").to_pylist() == [EMPTY]


def test_small_tables(tmp_path: Path) -> None:
    log = [{"event": "assigned", "keys": [1, 2]}]
    end = {"final": True, "rebalance_log": log, "positions": [[1, 4]], "ends": [[1, 2, 4]]}
    kill = {"fault": "kill:leader", "span": "start", "phase": "complete"}
    lines = [
        *SEND,
        op(2, 1, "invoke", "assign", [1], seek_to_beginning=True),
        op(3, 1, "ok", "assign", [1], seek_to_beginning=True),
        op(4, 1, "invoke", "poll", [["poll"]], final=True),
        op(5, 1, "ok", "poll", [["poll", []]], **end),
        op(6, "nemesis", "info", "kill", {"took_effect": True}, **kill),
        op(7, 2, "invoke", "delete-records", [[1, 2]]),
        op(8, 2, "ok", "delete-records", [[1, 2]]),
        op(9, 2, "invoke", "debug-topic-partitions", [1]),
        op(10, 2, "ok", "debug-topic-partitions", [[1, {"start": 2, "end": 4, "cleaned": 3}]]),
    ]
    tables = make_tables.collect(written(tmp_path, text(*lines)))
    assert tables.small["assigns"].to_pylist() == [
        {"op": 3, "process": 1, "type": 0, "how": schema.ASSIGN, "seek": True, "key": 1}
    ]
    assert [row["key"] for row in tables.small["rebalances"].to_pylist()] == [1, 2]
    places = {"key": 1, "log_start": 2, "end": 4}
    assert tables.small["ends"].to_pylist() == [
        {"op": 5, "process": 1, "final": True, **places, "position": 4, "invoke_ns": 40, "complete_ns": 50},
        {"op": 10, "process": 2, "final": False, **places, "position": -1, "invoke_ns": 90, "complete_ns": 100},
    ]
    assert tables.small["deletions"].to_pylist() == [{"op": 8, "type": 0, "key": 1, "before": 2, "complete_ns": 80}]
    assert tables.small["cleaned"].to_pylist() == [{"op": 10, "key": 1, "before": 3}]
    (nemesis,) = tables.small["nemesis"].to_pylist()
    assert (nemesis["fault"], nemesis["phase"], json.loads(nemesis["value"])) == (
        "kill:leader",
        "complete",
        {"took_effect": True},
    )
    assert tables.meta["final_processes"] == {"1": "ok"}


def test_a_final_send_is_no_final_poll(tmp_path: Path) -> None:
    """The summary counts clients that started over in the final polls. A send without an answer is none, nor is the
    crash that gives a client a new producer. A process that has sent must also read, so it counts.
    """
    final = [
        op(4, 2, "invoke", "send", [["send", 1, -2]], final=True),
        op(5, 2, "info", "send", [["send", 1, -2]], final=True),
        op(6, 4, "invoke", "crash", None, final=True, sends=True),
        op(7, 4, "info", "crash", None, final=True, sends=True),
        op(8, 6, "invoke", "send", [["send", 1, -3]], final=True),
        op(9, 6, "ok", "send", [["send", 1, [1, -3]]], final=True),
    ]
    tables = make_tables.collect(written(tmp_path, text(HEADER, *SEND, *POLL, *final)))
    assert tables.meta["final_processes"] == {"6": "ok"}


def test_how_far_the_cleaner_had_gone(tmp_path: Path) -> None:
    fields = {"fault": "config-change:compact", "span": "stop", "phase": "complete"}
    values = ([[1, 3], [2, 0]], [[1, "3"]], 5, [[1]])
    backs = [op(n, "nemesis", "info", "config-back", {"cleaned": value}, **fields) for n, value in enumerate(values, 2)]
    others = [
        op(6, "nemesis", "info", "heal", {"cleaned": [[1, 4]]}),
        op(7, "nemesis", "info", "someone-elses", {"cleaned": [[1, 9]]}),
    ]
    tables = make_tables.collect(written(tmp_path, text(*SEND, *backs, *others)))
    assert tables.small["cleaned"].to_pylist() == [
        {"op": 2, "key": 1, "before": 3},
        {"op": 2, "key": 2, "before": 0},
        {"op": 6, "key": 1, "before": 4},
    ]


def test_what_any_fault_deleted_is_a_deletion(tmp_path: Path) -> None:
    fields = {"fault": "config-change:retention", "span": "stop", "phase": "complete"}
    lines = [
        *SEND,
        op(2, "nemesis", "info", "config-back", {"deleted": [[1, 3]]}, **fields),
        op(3, "nemesis", "info", "config-back", {"deleted": ["a file"]}, **fields),
        op(4, "nemesis", "info", "config-back", {"deleted": 5}, **fields),
        op(5, "nemesis", "info", "someone-elses", {"deleted": [[1, 9]]}),
    ]
    tables = make_tables.collect(written(tmp_path, text(*lines)))
    assert tables.small["deletions"].to_pylist() == [{"op": 2, "type": 0, "key": 1, "before": 3, "complete_ns": 20}]


TORN = text(HEADER, *SEND, *POLL) + '{"index":4,"time_ns":40,"proc'


def test_torn_last_line_is_skipped_and_reported(tmp_path: Path) -> None:
    result = check_plain(run_folder(tmp_path, TORN), CheckOptions())
    assert result.valid == "unknown"
    assert any("cut off in its last line" in reason for reason in result.reasons)
    assert "cut off in its last line" in result.statistics["truncated"]


def test_truncated_gzip_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = gzip.compress(text(*SEND, *POLL).encode() * 1)
    lines = [op(n, n, "invoke", "poll", [["poll"]]) for n in range(4, 3000)]
    whole = gzip.compress(text(*SEND, *POLL, *lines).encode())
    result = check_plain(written(tmp_path, whole[: len(whole) // 2], "h.jsonl.gz"), CheckOptions())
    assert result.statistics["truncated"]
    assert result.statistics["acknowledged"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text(*SEND, "garbage", *POLL), "h.jsonl, line 3: not a JSON line"),
        (text(*SEND, "[1]", *POLL), "line 3: not an op"),
        (text(SEND[0], {"index": 1}, *POLL), "line 2: not an op .no field 'time_ns'"),
        (text(SEND[0], {**SEND[1], "index": 0}, *POLL), "line 2: index 0 after 0"),
        (text(SEND[0], {**SEND[1], "index": "x"}), "line 2: index 'x'"),
        (text(SEND[0], {**SEND[1], "type": "okay"}, *POLL), "line 2: unknown op type 'okay'"),
        (
            text(SEND[0], {**SEND[1], "f": "poll"}, *POLL),
            "line 2: process 0 completes 'poll', but had invoked",
        ),
        (text(SEND[0], {**SEND[0], "index": 1}, *POLL), "line 2: process 0 invokes again"),
        (text(SEND[0], {**SEND[1], "value": [["send", 1]]}, *POLL), "line 2: not a micro-op"),
        (text(SEND[0], {**SEND[1], "value": [["sned", 1, 2]]}, *POLL), "line 2: unknown micro-op"),
        (text(SEND[0], {**SEND[1], "value": 7}, *POLL), "line 2: the value of a send"),
        (text(SEND[0], {**SEND[1], "value": [["send", 1, ["a", 7]]]}, *POLL), "line 2: offset 'a'"),
        (text(*SEND, POLL[0], {**POLL[1], "value": [["poll", [[1, [[0]]]]]]}), "line 4: not a micro-op"),
        (text(*SEND, POLL[0], {**POLL[1], "value": [["poll", [[1, [["a", 7]]]]]]}), "a polled offset is not"),
        (text(SEND[0], {**SEND[1], "extra": [1]}, *POLL), "line 2: `extra`"),
        (text({"schema": 99}, *SEND), "line 1: written with schema 99"),
        (text(*SEND, "garbage"), "line 3: not a JSON line"),
        (text(SEND[0], {**SEND[1], "index": 1 << 63}), "line 2: index"),
        (text(SEND[0], {**SEND[1], "time_ns": 1 << 63}), "line 2: not an op"),
        (text(SEND[0], {**SEND[1], "value": [["send", 1, [1 << 63, 7]]]}), "line 2: offset 9223"),
        (text(*SEND, POLL[0], {**POLL[1], "value": [["poll", [[1, [[1 << 63, 7]]]]]]}), "op 3: a polled"),
        (text(*SEND, POLL[0], {**POLL[1], "extra": {"ends": [[1, 0, "x"]]}}), "line 4: `positions`"),
        (text(*SEND, POLL[0], {**POLL[1], "extra": {"positions": [[1, 1.5]], "ends": []}}), "line 4: `pos"),
    ],
)
def test_garbage_is_refused_with_its_place(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(BadHistory, match=message):
        check_plain(written(tmp_path, content), CheckOptions())


def test_torn_line_in_a_segment_that_is_not_the_last(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match=r"00000\.jsonl, line 6: not a JSON line"):
        check_plain(run_folder(tmp_path, TORN, text(HEADER)), CheckOptions())


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    run = run_folder(tmp_path, text(HEADER, *SEND), text(HEADER), text(HEADER, *POLL))
    (run / "history" / "00001.jsonl").unlink()
    with pytest.raises(BadHistory, match=r"00001\.jsonl is missing before 00002\.jsonl"):
        check_plain(run, CheckOptions())


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "h.jsonl")
    run = run_folder(tmp_path, text(HEADER, *SEND))
    os.mkfifo(run / "history" / "00001.jsonl")
    (tmp_path / "folder" / "history" / "00000.jsonl").mkdir(parents=True)
    for path in (tmp_path / "h.jsonl", run, tmp_path / "folder", Path("/dev/null")):
        with pytest.raises(BadHistory, match="not a regular file"):
            check_plain(path, CheckOptions())


def test_tables_that_are_no_regular_files_are_not_read(tmp_path: Path) -> None:
    run = run_folder(tmp_path, text(HEADER, *SEND, *POLL))
    assert check_plain(run, CheckOptions()).valid == "valid"
    parquet_folder.write(run, tmp_path / "exported")
    for folder, name in ((tmp_path / "exported", "ends.parquet"), (run / "tables", make_tables.META)):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    with pytest.raises(BadHistory, match=r"'ends\.parquet' is missing"):
        check_plain(tmp_path / "exported", CheckOptions())
    assert check_plain(run, CheckOptions()).valid == "valid"


def test_gzip_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_history, "UNPACKED_FREELY", 1 << 19)
    path = written(tmp_path, gzip.compress(text(*SEND).encode() + b"\n" * (4 << 20)), "h.jsonl.gz")
    with pytest.raises(BadHistory, match=r"h\.jsonl\.gz, after line \d+: decompresses to more than 100 times its size"):
        check_plain(path, CheckOptions())
    monkeypatch.setattr(read_history, "MAX_RATIO", 1000)
    monkeypatch.setattr(read_history, "MAX_BLANK_LINES", 5000)
    with pytest.raises(BadHistory, match=r"h\.jsonl\.gz, line 5003: more than 5,000 blank lines in the file"):
        check_plain(path, CheckOptions())


@pytest.mark.parametrize("kind", ["invoke", "ok", "fail", "info"])
@pytest.mark.parametrize("f", ["send", "poll", "txn", "assign", "subscribe", "debug-topic-partitions"])
def test_an_op_of_a_client_by_the_nemesis_is_refused(tmp_path: Path, f: str, kind: str) -> None:
    lines = [*SEND, op(2, "nemesis", kind, f, [])]
    with pytest.raises(BadHistory, match=f"line 3: the process 'nemesis' has an op '{f}', which only clients have"):
        check_plain(written(tmp_path, text(*lines)), CheckOptions())


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.sampled_from([[], {}, [[]], [[1]], [[1, 2]], [["poll", 5]], [["poll", [[[1], [[0, 1]]]]]]]),
)
SIMULATED = [op_json.to_data(op) for op in simulate(3, ops=25, processes=3, keys=3)]


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all values inside plain data."""
    for name, content in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, name)
        if isinstance(content, dict | list):
            yield from places(content, (*path, name))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_line_gives_a_verdict_or_one_message(data: st.DataObject) -> None:
    lines = json.loads(json.dumps(SIMULATED))
    line = data.draw(st.sampled_from(lines))
    *way, last = data.draw(st.sampled_from(list(places(line))))
    inner = line
    for step in way:
        inner = inner[step]
    inner[last] = data.draw(ODD)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), text(*lines))
        try:
            assert check_plain(path, CheckOptions()).valid in ("valid", "invalid", "unknown")
        except BadHistory as error:
            assert re.search(r"h\.jsonl, line \d+|op \d+", str(error)), error
        assert path.read_text() == text(*lines)


def test_no_history(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match=r"it has no history/\*.jsonl"):
        check_plain(tmp_path, CheckOptions())
    with pytest.raises(BadHistory, match="no such file"):
        check_plain(tmp_path / "nothing.edn", CheckOptions())


@pytest.mark.parametrize("content", ["", HEADER + "\n", "\n\n", '{"ind'])
def test_empty_history_is_unknown(tmp_path: Path, content: str) -> None:
    result = check_plain(run_folder(tmp_path, content), CheckOptions())
    assert result.valid == "unknown"
    assert result.reasons == ("the history contains no operations",)


@pytest.mark.parametrize("name", ["h.edn", "h.edn.gz"])
def test_edn(tmp_path: Path, name: str) -> None:
    lines = """{:time 1, :type :invoke, :process 0, :f :txn, :value [[:send 1 7] [:poll]]}
#jepsen.history.Op{:time 2, :type :ok, :process 0, :f :txn, :value [[:send 1 [0 7]] [:poll {"k" [[0 :v]]}]]}
{:time 3, :type :info, :process :nemesis, :f :kill, :value {:n1 #{1 2}}}
"""
    content = gzip.compress(lines.encode()) if name.endswith("gz") else lines.encode()
    tables = make_tables.collect(written(tmp_path, content, name))
    assert tables.ops.column("index").to_pylist() == [1]
    original = decoder(tables.texts)
    assert [original[code] for code in tables.polls.column("key").to_pylist()] == ["k"]
    assert [original[code] for code in tables.polls.column("value").to_pylist()] == [":v"]
    assert tables.small["nemesis"].num_rows == 1


EDN_OP = "{:index 0, :time 1, :type :invoke, :process 0, :f :poll, :value [[:poll]]}"


def test_edn_that_is_not(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="line 2, column 11"):
        check_plain(written(tmp_path, f"{EDN_OP}\n{{:a 1 :a 2}}\n{EDN_OP}\n", "h.edn"), CheckOptions())


def test_tables_are_made_once_and_again_when_the_history_grew(tmp_path: Path) -> None:
    run = run_folder(tmp_path, text(HEADER, *SEND))
    check_plain(run, CheckOptions())
    meta = run / "tables" / "_schema.json"
    stamp = meta.stat().st_mtime_ns
    check_plain(run, CheckOptions())
    assert meta.stat().st_mtime_ns == stamp
    with (run / "history" / "00000.jsonl").open("a") as stream:
        stream.write(text(*POLL))
    assert check_plain(run, CheckOptions()).valid == "valid"
    assert pq.read_table(run / "tables" / "ops").num_rows == 2


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a part cut short": lambda tables: (tables / SENDS).write_bytes(b"PAR1"),
    "a part gone": lambda tables: (tables / SENDS).unlink(),
    "a part with other bytes": lambda tables: (tables / SENDS).write_bytes(
        bytes(byte ^ 255 for byte in (tables / SENDS).read_bytes())
    ),
    "one byte of a page": lambda tables: flip(tables / SENDS, 60),
    "one byte of the ops": lambda tables: flip(tables / "ops" / "00000.parquet", 60),
    "a small table": lambda tables: flip(tables / "ends.parquet", 10),
    "no description": lambda tables: (tables / "_schema.json").unlink(),
    "half a description": lambda tables: (tables / "_schema.json").write_text('{"schema": 1, "buck'),
    "another description": lambda tables: (tables / "_schema.json").write_text('{"schema": 1}'),
    "no dictionary": lambda tables: (tables / "_dictionary.json").unlink(),
    "a file in their place": lambda tables: (shutil.rmtree(tables), tables.write_text("")),
}
SENDS = "sends/00000/00000.parquet"


def changed_digit(file: Path, before: bytes, after: bytes) -> None:
    """Changes the content of a file, but neither its size nor its times."""
    state = file.stat()
    content = file.read_bytes()
    assert content.count(before) == 1 and len(before) == len(after)
    file.write_bytes(content.replace(before, after))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_a_changed_digit_is_noticed(tmp_path: Path) -> None:
    run = run_folder(tmp_path, text(HEADER, *SEND), text(HEADER, *POLL))
    assert check_plain(run, CheckOptions()).valid == "valid"
    changed_digit(run / "history" / "00001.jsonl", b"[[0, 7]]", b"[[0, 8]]")
    found = check_plain(run, CheckOptions())
    assert "phantom-read" in [anomaly.name for anomaly in found.anomalies if anomaly.bad]
    changed_digit(run / "history" / "00001.jsonl", b"[[0, 8]]", b"[[0, 7]]")
    assert check_plain(run, CheckOptions()).valid == "valid"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_tables_are_made_again(tmp_path: Path, name: str) -> None:
    run = run_folder(tmp_path, text(HEADER, *SEND, *POLL))
    history = (run / "history" / "00000.jsonl").read_bytes()
    whole = check_plain(run, CheckOptions())
    DAMAGE[name](run / "tables")
    assert check_plain(run, CheckOptions()) == whole
    assert pq.read_table(run / "tables" / SENDS).num_rows == 1
    assert (run / "history" / "00000.jsonl").read_bytes() == history


def test_tables_of_a_newer_schema_are_refused(tmp_path: Path) -> None:
    run = run_folder(tmp_path, text(HEADER, *SEND))
    check_plain(run, CheckOptions())
    meta = json.loads((run / "tables" / "_schema.json").read_text())
    (run / "tables" / "_schema.json").write_text(json.dumps({**meta, "schema": 99}))
    with pytest.raises(BadHistory, match="written with schema 99"):
        check_plain(run, CheckOptions())


def test_parts_and_buckets_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_tables, "CHUNK_ROWS", 1)
    run = run_folder(tmp_path, text(HEADER, *SEND, *POLL))
    for buckets in (1, 3):
        result = check_plain(run, CheckOptions(buckets=buckets))
        assert (result.valid, result.statistics["seen"]) == ("valid", 1)
    assert len(list((run / "tables" / "ops").iterdir())) > 1


def test_codes() -> None:
    coder = Coder()
    assert coder.codes([1, -5, 0]).tolist() == [1, -5, 0]
    assert coder.codes([1, "a", True, "a", BASE]).tolist() == [1, BASE, BASE + 1, BASE, BASE + 2]
    assert dict(decoder(coder.texts)) == {BASE: "a", BASE + 1: True, BASE + 2: BASE}
    assert Coder(coder.texts).code("a") == BASE
