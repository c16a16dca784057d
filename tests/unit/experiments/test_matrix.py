"""Matrices: which runs are made, and which files are written."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli.matrix import matrix, parts, seconds
from harness.cluster.distribution.versions import DEFAULT
from harness.experiments.expectations import ANY, Expectation
from harness.experiments.matrix import report, run, spec
from harness.experiments.matrix.run import Done
from harness.experiments.matrix.spec import Cell
from harness.experiments.run import Attempt
from harness.experiments.spec import Case
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing

NIGHTLY = Path(__file__).parents[3] / "nightly.yaml"


def cell(name: str, seed: int = 1) -> Cell:
    return Cell(Case(name, "", {"nemesis": []}, Expectation(never=(ANY,)), 1), seed)


def done(name: str, valid: str, met: bool, seed: int = 1) -> Done:
    return Done(cell(name, seed), Attempt(seed, valid, [met], 3.0, "runs/x", {} if met else {"lost-write": 2}))


def test_the_nightly_can_be_planned() -> None:
    cells = spec.load(NIGHTLY)
    assert len({each.name for each in cells}) > 40
    shards = [spec.shard(cells, n, 4) for n in (1, 2, 3, 4)]
    assert sorted(each.name for part in shards for each in part) == sorted(each.name for each in cells)
    assert [each.name for each in spec.load(NIGHTLY)] == [each.name for each in cells]
    assert [each.name for each in spec.load(NIGHTLY, seed=2)] != [each.name for each in cells]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes: {a: [{nemesys: []}]}\n", "m.yaml:1:13: nemesys: no such key; did you mean nemesis?"),
        ("plan: {nemsis: []}\naxes: {a: [{}]}\n", "m.yaml:1:8: nemsis: no such key; did you mean nemesis?"),
        ("plan: {acks: all}\naxes: {a: [{acks: 1}, {acks: x}]}\n", "m.yaml:2:30: acks x: "),
        ("axes: {a: [{min_insync_replicas: 0}]}\n", "m.yaml:1:34: min_insync_replicas 0: "),
        ("axis: {}\n", "m.yaml:1:1: axis: no such key; did you mean axes"),
        ("experiments: [acks-7]\n", "m.yaml:1:15: no experiment 'acks-7'"),
        ("{}\n", "nothing to run"),
    ],
)
def test_mistakes_are_reported_with_their_position(tmp_path: Path, text: str, message: str) -> None:
    if text == "{}\n":
        assert len(spec.load(_written(tmp_path, text))) == 1  # the default plan, once
        return
    with pytest.raises(BadInput) as raised:
        spec.load(_written(tmp_path, text))
    assert message in str(raised.value)


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    return path


def test_everything_shows_a_failure(tmp_path: Path) -> None:
    ran = [
        done("good", "valid", True),
        done("b|ad \x01", "invalid", False),
        Done(cell("cut"), None, "no time"),
    ]
    paths = report.write(ran, tmp_path / "out")
    assert [path.name for path in paths] == ["summary.md", "junit.xml", "results.json"]
    suite = ElementTree.fromstring((tmp_path / "out" / "junit.xml").read_bytes())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert summary.startswith("# 1 of 3 runs as expected, 1 NOT as expected, 1 could not be judged\n")
    assert "lost-write 2" in summary
    assert json.loads((tmp_path / "out" / "results.json").read_text())[1]["exit_code"] == 1
    assert run.exit_code(ran) == 1


def test_the_summary_is_bounded() -> None:
    many = [done("x" * 200, "invalid", False, seed) for seed in range(5000)]
    assert len(report.markdown(many).encode()) < 1 << 20


def test_rates_beyond_chance_are_reported(tmp_path: Path) -> None:
    report.write([done("a", "valid", True, n) for n in range(10)], tmp_path)
    worse = [done("a", "invalid", False, n) for n in range(10)]
    assert report.changed(worse, tmp_path) == ["matrix/a: as expected in 0 of 10 runs, previously in 10 of 10"]
    assert report.changed(worse[:1], tmp_path) == []
    with pytest.raises(BadInput, match="does not contain results of a matrix"):
        report.changed([], tmp_path / "nowhere")


def test_failures_and_the_budget_end_nothing_early(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcomes = iter([Missing("no Java"), ClusterTrouble("no quorum"), Attempt(1, "valid", [True], 1.0)])

    def attempt(*arguments: object) -> Attempt:
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(run, "attempt", attempt)
    message: list[str] = []
    ran = run.matrix([cell("a"), cell("b"), cell("c")], tmp_path, 60, message.append)
    assert [one.exit_code for one in ran] == [2, 2, 0]
    assert run.exit_code(ran) == 2
    ran = run.matrix([cell("a")], tmp_path, 0, message.append)
    assert ran[0].attempt is None
    assert "not run" in message[-1]


def test_runs_beyond_the_budget_are_counted(tmp_path: Path) -> None:
    ran = [done("a", "valid", True), Done(cell("b"), None, run.BUDGET_USED_UP)]
    assert run.counts(ran) == "1 of 2 runs as expected, 1 not run, because the time budget was used up"
    assert run.exit_code(ran) == 0 and run.exit_code(ran[1:]) == 2
    assert "unknown" not in report.markdown(ran) and "## Could not be judged" not in report.markdown(ran)


def test_one_run_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _written(tmp_path, "axes: {a: [{}, {txn: true}]}\nexperiments: [acks-1]\n")
    cells = spec.load(file)
    assert [each.name for each in spec.chosen(cells, "txn")] == ["matrix/txn"]
    assert [each.name for each in spec.chosen(cells, "acks-1/bad")] == ["acks-1/bad"]
    with pytest.raises(BadInput, match="--only txm: the matrix has no such run; did you mean txn"):
        spec.chosen(cells, "txm")
    assert matrix(file, show=True, only="txn") == 0
    assert capsys.readouterr().out == "matrix/txn (seed 1)\n"


def test_arguments() -> None:
    assert [seconds(text) for text in ("90", "20m", "1.5h")] == [90, 1200, 5400]
    assert parts("2/4") == (2, 4)
    for bad in ("5/4", "0/1", "x"):
        with pytest.raises(BadInput, match="--shard"):
            parts(bad)
    with pytest.raises(BadInput, match="--budget"):
        seconds("soon")


def test_experiments_also_run_on_other_versions_where_they_can() -> None:
    base = {"time_limit_s": 5}
    expected = Expectation(never=("invalid",))
    plain = Case("c", "", base, expected, 1)
    assert [case.variant for case in spec.on_versions(plain, ["3.9", DEFAULT, "4.1"])] == ["", "Kafka 3.9", "Kafka 4.1"]
    assert spec.on_versions(plain, ["3.9"])[1].plan["kafka_version"] == "3.9"
    named = Case("c", "", {**base, "kafka_version": "3.4"}, expected, 1)
    new_protocol = Case("c", "", {**base, "group_protocol": "consumer"}, expected, 1)
    assert spec.on_versions(named, ["3.9"]) == [named]
    assert [case.variant for case in spec.on_versions(new_protocol, ["3.9", "4.1"])] == ["", "Kafka 4.1"]
