"""`harness explain`: everything that was found, and one witness in full."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import app
from harness.history_writer import write_json
from harness.model import op as ops_
from harness.model import op_json
from harness.model.check_result import AnomalyFound, Result, to_data
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import Op
from harness.report.text import gather_explanation, print_explanation, witness_lookup
from harness.stored import find_runs
from tests.unit.checker.cases import Case, cases
from tests.unit.report.folders import S, judged, killed, recorded, woven
from tests.unit.report.test_broker_logs import WALL_NS, line, logged
from tests.unit.report.test_summary import flat

EXPLAINED = [case for case in cases() if case.path.stem == "positive"]


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A leader is killed, a record acknowledged meanwhile is gone, and the broker's log says why."""

    def op(at_s: float, process: int, type_: str, f: str, value: Any, **extra: Any) -> Op:
        return Op(-1, int(at_s * S), process, type_, f, value, None, extra)

    end = {"final": True, "positions": [[6, 1]], "ends": [[6, 0, 1]]}
    ops = woven(
        killed(5, 15, "n2"),
        [
            op(1, 0, ops_.INVOKE, "send", [["send", 6, 7]]),
            op(1.004, 0, ops_.OK, "send", [["send", 6, [0, 7]]]),
            op(6, 0, ops_.INVOKE, "txn", [["send", 6, 8], ["send", 9, 1], ["poll"]]),
            op(6.25, 0, ops_.OK, "txn", [["send", 6, [1, 8]], ["send", 9, [0, 1]], ["poll", [[6, [[0, 7]]]]]]),
            op(20, 1, ops_.INVOKE, "assign", [6, 9], seek_to_beginning=True, final=True),
            op(21, 1, ops_.OK, "assign", [6, 9], seek_to_beginning=True, final=True),
            op(22, 1, ops_.INVOKE, "poll", [["poll"]], final=True),
            op(
                23,
                1,
                ops_.OK,
                "poll",
                [["poll", [[6, [[0, 7]]], [9, [[0, 1]]]]]],
                **{**end, "positions": [[6, 1], [9, 1]], "ends": [[6, 0, 1], [9, 0, 1]]},
            ),
        ],
    )
    folder = recorded(tmp_path, "20260102T030405-kill", ops, partitions_per_topic=4)
    path = folder / "history" / "00000.jsonl"
    first = op_json.header("20260102T030405-kill", 0, 0, 0)
    path.write_bytes(path.read_bytes().replace(first, op_json.header(folder.name, 0, WALL_NS, 0)))
    text = "[UnifiedLog partition=20260102T030405-kill-1-2, dir=/x] Truncating to offset 1"
    logged(folder / "logs", "n2", [line(-2, "Starting"), line(16, text), line(23, "Bye")])
    judged(folder)
    return folder


def full_text(run: Path, what: str) -> str:
    result = find_runs.require_result(run)
    return print_explanation.text(gather_explanation.explain(run, result, witness_lookup.named_witness(what)))


def test_a_witness_in_full(lost: Path) -> None:
    text = full_text(lost, "lost-write")
    assert text.splitlines()[0].startswith("lost-write#1 of 1; ")
    assert "Key 6, value 8: sent by process 0 at 6.000 s" in flat(text)
    assert "op 4: process 0, txn ok, 6.000-6.250 s sent 8 to key 6 at offset 1 polled 1 record of key 6" in flat(text)
    assert "and 1 micro-operation on other keys" in text
    assert "kill:leader n2, 5.000 s to 15.000 s: during op 4" in text
    assert "16.000 s n2 INFO [UnifiedLog partition=20260102T030405-kill-1-2] Truncating to offset 1" in flat(text)
    assert f"harness around {lost} --key 6 --offset 1" in text


def test_everything_that_was_found(lost: Path) -> None:
    text = print_explanation.overview(lost, find_runs.require_result(lost))
    assert text.splitlines()[0] == "run 20260102T030405-kill: INVALID"
    for name in ("lost-write", "unseen"):
        assert f"{name}: 1" in text and f"in full: harness explain {lost} {name}" in text


def test_without_tables_or_logs_or_header_there_is_less_to_say(lost: Path) -> None:
    shutil.rmtree(lost / "logs")
    shutil.rmtree(lost / "tables")
    text = full_text(lost, "lost-write")
    assert "sent 8 to key 6 at offset 1" in text and "broker logs" not in text
    shutil.rmtree(lost / "history")
    assert "Key 6, value 8" in full_text(lost, "lost-write")


@pytest.mark.parametrize("case", EXPLAINED, ids=lambda case: case.name)
def test_every_anomaly_is_explained_with_its_ops(tmp_path: Path, case: Case) -> None:
    (tmp_path / "history").mkdir()
    shutil.copy(case.path, tmp_path / "history" / "00000.jsonl")
    result = judged(tmp_path, case.options)
    for anomaly in result.anomalies:
        what = gather_explanation.explain(tmp_path, result, witness_lookup.named_witness(anomaly.name))
        text = print_explanation.text(what)
        assert what.ops and all(op.fact is not None and op.value is not None for op in what.ops)
        assert "not found in the tables" not in text
        for op in what.ops:
            assert f"op {op.id}: process " in text
        if "cycle" in what.witness:
            assert text.count(" < ") == len(what.witness["steps"]) and "a contradiction!" in text
        assert json.loads(orjson.dumps(gather_explanation.data(what)))["anomaly"] == anomaly.name


def stored_witnesses(run: Path, name: str, witnesses: list[dict[str, Any]]) -> None:
    folder = run / "results" / "witnesses"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"witness": [orjson.dumps(one).decode() for one in witnesses]}), folder / f"{name}.parquet")


def test_numbers_go_on_behind_those_of_the_result_and_no_witness_comes_twice(tmp_path: Path) -> None:
    witnesses = [{"key": 1, "value": n, "count": 2, "offsets": [n, n + 1]} for n in range(10_000)]
    shown = (witnesses[9_000], witnesses[5])
    anomaly = AnomalyFound("duplicate", "Twice.", len(witnesses), True, True, shown)
    stored_witnesses(tmp_path, "duplicate", witnesses)
    numbers = [one["value"] for one in witness_lookup.numbered(tmp_path, anomaly)]
    assert numbers[:4] == [9_000, 5, 0, 1]
    assert sorted(numbers) == list(range(10_000))
    assert witness_lookup.one(tmp_path, anomaly, 10_000)["value"] == 9_999
    with pytest.raises(BadInput, match="a number from 1 to 10,000"):
        witness_lookup.one(tmp_path, anomaly, 10_001)


@pytest.mark.parametrize(
    ("text", "says"), [("G1a#0", "from 1"), ("G1a#x", "from 1"), ("G1a#", "from 1"), ("G1a#²", "from 1")]
)
def test_what_is_no_number_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        witness_lookup.named_witness(text)


def test_names_are_found_in_any_case_and_unknown_ones_are_refused_with_those_there_are() -> None:
    result = Result("invalid", None, (), (AnomalyFound("G1a", "Aborted.", 1, True, True),))
    assert witness_lookup.anomaly(result, "g1A").name == "G1a"
    with pytest.raises(BadInput, match=r"G0: not among the anomalies of this run \(G1a\)"):
        witness_lookup.anomaly(result, "G0")
    with pytest.raises(BadInput, match=r"\(none\)"):
        witness_lookup.anomaly(Result("valid"), "G0")


def test_the_command(lost: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["--runs", str(tmp_path)]
    assert app.invoke(["explain", "2026", *runs]) == 0
    assert "lost-write: 1" in capsys.readouterr().out
    assert app.invoke(["explain", "2026", "lost-write#1", "--json", *runs]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["witness"]["value"] == 8 and data["faults"][0]["fault"] == "kill:leader"
    assert data["logs"][0]["node"] == "n2"
    assert app.invoke(["explain", "2026", "lost-write#2", *runs]) == 254
    assert "from 1 to 1" in capsys.readouterr().err
    assert app.invoke(["explain", str(lost / "history" / "00000.jsonl")]) == 254
    assert "harness import" in capsys.readouterr().err
    (lost / "results.json").unlink()
    assert app.invoke(["explain", "2026", *runs]) == 254
    assert "harness check" in capsys.readouterr().err


def test_a_valid_run_has_nothing_to_explain(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "20260102T030405-fine", [])
    write_json(folder / "results.json", to_data(Result("valid")))
    assert "no anomaly was found" in print_explanation.overview(folder, find_runs.require_result(folder))


def test_what_does_not_print_is_escaped(lost: Path) -> None:
    anomaly = AnomalyFound("G1a", "Bad.", 1, True, True, ({"key": 1, "value": "\x1b[2J", "writer": 1, "reader": 3},))
    result = Result("invalid", True, (), (anomaly,))
    for text in (
        print_explanation.overview(lost, result),
        print_explanation.text(gather_explanation.explain(lost, result, witness_lookup.named_witness("G1a"))),
    ):
        assert "\x1b" not in text and "\\x1b[2J" in text


def test_an_anomaly_without_witnesses_says_so(lost: Path) -> None:
    result = Result("unknown", None, (), (AnomalyFound("empty-transaction-graph", "Nothing.", 1, False, None),))
    with pytest.raises(BadInput, match="no witness"):
        gather_explanation.explain(lost, result, witness_lookup.named_witness("empty-transaction-graph"))


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there are no runs in"):
        find_runs.judged(tmp_path, "nothing")


@pytest.mark.parametrize(
    "witness",
    [
        {"values": 3, "key": 1},
        {"unseen": 5},
        {"unseen": {"1": "x"}, "messages": 4},
        {"steps": 4},
        {"cycle": [[1]], "steps": []},
        {"cycle": [1, 2, 1], "steps": [{"type": "ww"}, {}]},
        {"cycle": 7, "steps": [1]},
        {"scc-size": "x", "scc": 5},
        {"ops": {"a": 1}, "offsets": 3, "key": [], "value": {}},
    ],
)
@pytest.mark.parametrize("name", ["G1a", "G1c", "unseen", "torn-transaction", "poll-skip"])
def test_a_witness_of_another_form_is_shown_as_far_as_it_goes(lost: Path, name: str, witness: dict[str, Any]) -> None:
    result = Result("invalid", True, (), (AnomalyFound(name, "Bad.", 1, True, True, (witness,)),))
    assert name in print_explanation.overview(lost, result)
    full_text = gather_explanation.explain(lost, result, witness_lookup.named_witness(name))
    assert print_explanation.text(full_text).startswith(f"{name}#1")
    assert json.dumps(gather_explanation.data(full_text), default=str)


@pytest.mark.parametrize(
    ("case", "anomaly", "told"),
    [
        (
            "lost-write/read-never-acknowledged",
            "lost-write",
            "(op 5), indeterminate after 1.0 ms. First read at offset 1 by process 8 (op 7, 0.007 s), but missing "
            "when the log was read again from its beginning.",
        ),
        (
            "lost-write/info-acknowledged",
            "lost-write",
            "indeterminate after 1.0 ms, though the record had been acknowledged at offset 1. It was never read.",
        ),
        (
            "phantom-read/info-before-it-was-sent",
            "phantom-read",
            "process 8 (op 5, 0.005 s) polled value 2 before it was sent. It was sent by process 0 at 0.006 s (op 7)",
        ),
    ],
)
def test_what_is_told_of_a_record_that_was_not_acknowledged(tmp_path: Path, case: str, anomaly: str, told: str) -> None:
    """That it was read, or what came first; never that it was acknowledged when it was not."""
    judged_one = next(each for each in cases() if each.name == case)
    (tmp_path / "history").mkdir()
    shutil.copy(judged_one.path, tmp_path / "history" / "00000.jsonl")
    result = judged(tmp_path, judged_one.options)
    told_of = gather_explanation.explain(tmp_path, result, witness_lookup.named_witness(anomaly))
    text = flat(print_explanation.text(told_of))
    assert told in text
    assert "An acknowledged record" not in text
