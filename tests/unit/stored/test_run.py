"""Stored runs as Python objects."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import harness
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.model.op import Op
from harness.sim.queue.run import simulate
from tests.unit.report.folders import judged, recorded


def test_a_run_gives_its_tables_results_and_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = simulate(1, ops=100, txn=False, bugs=frozenset({"lose-acked"}))
    folder = recorded(tmp_path, "one", ops)
    run = harness.load("one", tmp_path)
    with pytest.raises(BadInput, match="not judged yet"):
        _ = run.results
    done = [op for op in ops if op.type != "invoke"]
    assert run.ops.num_rows == len(done)  # the tables were made for this
    judged(folder)
    assert harness.load(folder).results.valid == "invalid"
    assert harness.load("latest", tmp_path).plan["acks"] == "all"
    frame = run.pandas()
    assert frame[frame.type == "ok"]["index"].tolist() == [op.index for op in done if op.type == "ok"]
    assert set(run.pandas("sends").columns) >= {"key", "value", "offset", "op"}
    assert run.arrow("polls").num_rows > run.arrow("sends").num_rows
    with pytest.raises(BadInput, match="one of ops, sends"):
        run.arrow("nothing")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Missing, match="pip install polars"):
        run.polars()


def test_keys_and_values_of_any_type_are_described(tmp_path: Path) -> None:
    def both(index: int, f: str, invoked: object, answered: object) -> list[Op]:
        return [
            Op(index, index, 0, "invoke", f, invoked),
            Op(index + 1, index + 1, 0, "ok", f, answered),
        ]

    ops = both(0, "send", [["send", "a", {"b": 1}]], [["send", "a", [0, {"b": 1}]]])
    ops += both(2, "poll", [["poll"]], [["poll", [["a", [[0, {"b": 1}]]]]]])
    recorded(tmp_path, "odd", ops)
    run = harness.load("odd", tmp_path)
    for table in ("sends", "polls"):
        assert run.arrow(table).column("key").to_pylist() == ['"a"']
        assert run.arrow(table).column("value").to_pylist() == ['{"b":1}']


def test_a_frame_of_polars_is_the_table(tmp_path: Path) -> None:
    recorded(tmp_path, "one", simulate(1, ops=100))
    run = harness.load("one", tmp_path)
    for table in ("ops", "sends", "nemesis"):
        frame, arrow = run.polars(table), run.arrow(table)
        assert frame.columns == arrow.column_names
        assert frame.height == arrow.num_rows
        assert frame.to_dicts() == arrow.to_pylist()
    assert run.polars("sends").height > 0
