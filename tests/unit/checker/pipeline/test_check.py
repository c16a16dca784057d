"""The check of a pipeline around the comparison: what a run says of itself, its faults, what is promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checker.checks.pipeline import faults_of, of_run
from checker.tables.buckets_of_a_history import Source, in_memory
from checker.tables.make_tables import of_ops
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import AnomalyFound, Result
from harness.model.op import INVOKE, OK, Op
from tests.unit.report.folders import S, killed, nemesis, woven

WORK = [Op(-1, S, 0, INVOKE, "work", None), Op(-1, 2 * S, 0, OK, "work", 1)]
VALID = Result("valid", None, (), (), {"pipeline": {}})
LOST = AnomalyFound("lost-input", "Lost.", 1, True, True, ({"topic": "in", "partition": 0},))
INVALID = Result("invalid", True, (), (LOST,), {})
UNKNOWN = Result("unknown", None, ("nothing was read",), (), {})


def source(folder: Path, *parts: Any, **fields: Any) -> Source:
    """A history beside a run folder, with something in the place of Spark."""
    return replace(in_memory(of_ops(woven(*parts))), **{"noted": folder, "spark": object(), **fields})


def answering(result: Result, asked: list[Any] | None = None) -> Callable[..., dict[Path, Result]]:
    """What stands for the comparison of runs; it notes what it is asked."""

    def judge_runs(spark: Any, runs: list[Path], faults: Any, store: bool) -> dict[Path, Result]:
        if asked is not None:
            asked.append((runs, faults, store))
        return dict.fromkeys(runs, result)

    return judge_runs


def test_without_spark_or_a_folder_there_is_no_verdict(tmp_path: Path) -> None:
    for fields, lacking in (({"noted": None}, "need a run folder"), ({"spark": None}, "need Spark")):
        result = of_run(answering(VALID), source(tmp_path, WORK, **fields), CheckOptions())
        assert result.valid == "unknown" and lacking in result.reasons[0]


@pytest.mark.parametrize(
    ("found", "faults", "ops", "valid", "reasons"),
    [
        (VALID, (), WORK, "valid", ()),
        (VALID, ("kill:leader",), WORK, "unknown", ("the fault kill:leader never took effect",)),
        (VALID, (), [], "unknown", ("the history contains no operations",)),
        (INVALID, ("kill:leader",), WORK, "invalid", ("the fault kill:leader never took effect",)),
        (UNKNOWN, (), WORK, "unknown", ("nothing was read",)),
    ],
)
def test_what_the_run_says_withholds_valid_only(
    tmp_path: Path, found: Result, faults: tuple[str, ...], ops: list[Op], valid: str, reasons: tuple[str, ...]
) -> None:
    result = of_run(answering(found), source(tmp_path, ops), CheckOptions(expected_faults=faults))
    assert (result.valid, result.reasons) == (valid, reasons)
    assert result.statistics["ops"] == len(ops) // 2


def test_trouble_and_unfinished_final_polls_are_reasons(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "harness.jsonl").write_text('{"event": "trouble", "detail": "n2 did not come back"}\n')
    result = of_run(answering(VALID), source(tmp_path, WORK), CheckOptions(require_final_polls=True))
    assert result.valid == "unknown"
    assert result.reasons == ("the final polls did not finish", "the run had trouble: n2 did not come back")


@pytest.mark.parametrize(("acks", "promised"), [("1", False), (None, None), ("all", True)])
def test_what_the_writers_were_promised_follows_from_settings(
    tmp_path: Path, acks: str | None, promised: bool | None
) -> None:
    settings = Settings(acks=acks, replication=3, min_insync_replicas=2, unclean_election=False)
    result = of_run(answering(INVALID), source(tmp_path, WORK), CheckOptions(settings=settings))
    assert (result.promised, result.anomalies[0].promised) == (promised, promised)


def test_witnesses_are_stored_where_the_tables_are(tmp_path: Path) -> None:
    asked: list[Any] = []
    for fields in ({}, {"run": tmp_path, "noted": None}):
        of_run(answering(VALID, asked), source(tmp_path, WORK, killed(1, 5, "n1"), **fields), CheckOptions())
    (runs, faults, store), (_, _, of_own_folder) = asked
    assert (runs, store, of_own_folder) == ([tmp_path], False, True)
    assert [text for _, text in faults[str(tmp_path)]] == ["kill:leader n1", "kill:leader: restart n1"]


def test_faults_as_they_are_told(tmp_path: Path) -> None:
    """Completions only, in order of time, with what was hit; a value that says nothing hides no fault."""
    ops = [
        nemesis(3, "pause", "start", "complete", {"nodes": ["n1"], "clients": [4]}, "pause:all"),
        nemesis(2, "pause", "start", "invoke", {}, "pause:all"),
        nemesis(1, "elect", "start", "complete", None, "elect-leaders"),
        nemesis(4, "note", "start", "complete", {}, ""),
    ]
    assert faults_of(source(tmp_path, WORK, ops)) == [(1 * S, "elect-leaders: elect"), (3 * S, "pause:all n1, 4")]
