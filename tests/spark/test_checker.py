"""The checker on Spark gives the same answers as the plain kernels, with any number of buckets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checker.check import check, check_many, check_plain
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.model.errors_and_exit_codes import BadHistory
from tests.unit.checker import jepsen
from tests.unit.checker.cases import Case, cases, differences

pytestmark = pytest.mark.spark


def test_jepsen_rows_in_one_job(spark: Any) -> None:
    rows = jepsen.rows()
    options = [
        CheckOptions(ww_deps=ww, sub_via=frozenset({via}), jepsen_compatible=True)
        for ww in (False, True)
        for via in ("assign", "subscribe")
    ]
    names = sorted({row["history"] for row in rows})
    answers = check_many(spark, [jepsen.FOLDER / f"{name}.edn.gz" for name in names], options)
    given = iter(answers)
    by_row: dict[tuple[str, bool, str], Result] = {}
    for name in names:
        for each in options:
            path, result = next(given)
            assert Path(path).name == f"{name}.edn.gz"
            assert isinstance(result, Result)
            by_row[(name, each.ww_deps, next(iter(each.sub_via)))] = result
    wrong = {
        (row["history"], row["ww_deps"], row["sub_via"]): found
        for row in rows
        if (found := jepsen.differences(row, to_data(by_row[(row["history"], row["ww_deps"], row["sub_via"])])))
    }
    assert wrong == {}


def test_cases_in_one_job_per_options(spark: Any) -> None:
    """All anomaly cases, in one job for each distinct set of options."""
    groups: dict[str, list[Case]] = {}
    for case in cases():
        groups.setdefault(repr(case.options), []).append(case)
    wrong: dict[str, list[str]] = {}
    for group in groups.values():
        answers = check_many(spark, [case.path for case in group], group[0].options)
        for case, (_, result) in zip(group, answers, strict=True):
            assert isinstance(result, Result), result
            if found := differences(case, result):
                wrong[case.name] = found
    assert wrong == {}


def _run_folder(case: Case, folder: Path) -> Path:
    (folder / "history").mkdir(parents=True)
    shutil.copy(case.path, folder / "history" / "00000.jsonl")
    return folder


@pytest.mark.parametrize("name", ["torn-transaction/positive", "lost-write/positive", "duplicate/positive"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_run_folder_with_tables_and_results(spark: Any, tmp_path: Path, name: str, buckets: int) -> None:
    case = next(case for case in cases() if case.name == name)
    run = _run_folder(case, tmp_path / "run")
    options = CheckOptions(**{**_fields(case.options), "buckets": buckets})
    result = check(spark, run, options, progress=lambda text: None)
    assert differences(case, result) == []
    for anomaly in result.anomalies:
        table = pq.read_table(run / "results" / "witnesses" / f"{anomaly.name}.parquet")
        witnesses = [json.loads(text) for text in table.column("witness").to_pylist()]
        if anomaly.name != "unseen":
            assert len(witnesses) == anomaly.count
            assert list(anomaly.witnesses) == witnesses
    assert not (run / "results" / ".parts").exists()


def _fields(options: CheckOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__slots__}


@pytest.mark.parametrize("name", ["c045.assign", "c046.subscribe", "c125.subscribe"])
def test_number_of_buckets_changes_nothing(spark: Any, tmp_path: Path, name: str) -> None:
    """A Jepsen history as a run folder in 1, 4 and 16 buckets, in native and compatible mode, and without Spark."""
    path = jepsen.FOLDER / f"{name}.edn.gz"
    for compatible in (False, True):
        answers = []
        for buckets in (1, 4, 16):
            run = tmp_path / f"{compatible}-{buckets}"
            _jsonl_of(path, run)
            options = CheckOptions(jepsen_compatible=compatible, buckets=buckets)
            answers.append(_comparable(check(spark, run, options, progress=lambda text: None)))
        plain = _comparable(check_plain(path, CheckOptions(jepsen_compatible=compatible)))
        assert answers == [plain] * 3


def _jsonl_of(path: Path, run: Path) -> None:
    from checker.tables.read_history import Notes, read

    (run / "history").mkdir(parents=True)
    lines = [json.dumps(dict(line.data)) for line in read(path, Notes())]
    (run / "history" / "00000.jsonl").write_text("\n".join(lines) + "\n")


def _comparable(result: Result) -> Any:
    """Without what depends on the intervals of the time series, and with witnesses in one order."""
    data = to_data(result)
    for anomaly in data["anomalies"]:
        for witness in anomaly["witnesses"]:
            for name in ("unseen", "messages"):
                if name in witness:
                    witness[name] = dict(sorted(witness[name].items()))
        anomaly["witnesses"] = sorted(json.dumps(witness) for witness in anomaly["witnesses"])
    data["statistics"]["consume_counts"]["more_than_once"] = None
    return data


def test_bad_history_reaches_the_caller(spark: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"index":0}\n{"index":1}\n')
    with pytest.raises(BadHistory, match="line 1"):
        check(spark, bad, CheckOptions())
    ((_, answer),) = check_many(spark, [bad], CheckOptions())
    assert isinstance(answer, dict)
    assert "line 1" in answer["error"]
    assert answer["exit_code"] == 2
