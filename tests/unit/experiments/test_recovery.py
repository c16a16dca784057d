"""Which results of a recovery scenario are as expected, and the table of stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.experiments import recovery
from harness.model.check_result import AnomalyFound, Result, Verdict, to_data
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.plan.make_plan import make
from harness.plan.plan_file import dump
from harness.plan.test_plan import TestPlan
from workloads.recovery.scenarios import SCENARIOS


def _result(valid: Verdict, *names: str, promised: bool | None = False) -> Result:
    found = tuple(AnomalyFound(name, "", 1, True, promised) for name in names)
    start = {"act": 2, "node": "n1", "segments": 6, "recovered": 3, "load_ms": 40, "ended": False}
    return Result(valid, promised, (), found, {"recovery": {"starts": [start]}, "delivery": {"lost": 5}})


@pytest.mark.parametrize(
    ("scenario", "result", "expected"),
    [
        ("kill-restart", _result("valid"), True),
        ("kill-restart", _result("unknown"), False),
        ("kill-restart", _result("invalid", "lost-write"), False),
        ("tail-last-only", _result("valid"), True),
        ("tail-last-only", _result("invalid", "lost-write"), True),
        ("tail-last-only", _result("invalid", "lost-write", promised=True), False),
        ("tail-last-only", _result("invalid", "lost-write", "recovery-divergence"), False),
        ("tail-last-only", _result("unknown"), False),
        ("flip-first-only", _result("unknown"), True),
    ],
)
def test_as_expected(scenario: str, result: Result, expected: bool) -> None:
    assert recovery.as_expected(SCENARIOS[scenario], result) is expected


def test_the_newest_run_of_each_scenario_is_shown(tmp_path: Path) -> None:
    for stamp, lost in (("20260101T000000", 1), ("20260102T000000", 0)):
        folder = tmp_path / f"{stamp}-kill-restart"
        (folder / "history").mkdir(parents=True)
        (folder / "plan.yaml").write_text(dump(make({"workload": "recovery", "scenario": "kill-restart"})))
        result = _result("invalid", "lost-write") if lost else _result("valid")
        (folder / "results.json").write_text(json.dumps(to_data(result)))
    (tmp_path / "20260103T000000-other").mkdir()
    (row,) = recovery.stored(tmp_path)
    assert row.expected and row.folder.endswith("20260102T000000-kill-restart")
    text = recovery.aligned(recovery.table([row]))
    assert "kill-restart" in text and "3 of 6" in text and "40 ms" in text
    assert recovery.markdown(recovery.table([row])).splitlines()[2].startswith("| kill-restart | 4.")
    assert recovery.stored(tmp_path / "nothing") == []


def test_one_that_cannot_be_run_does_not_end_the_others() -> None:
    messages: list[str] = []

    def run(plan: TestPlan) -> object:
        raise ClusterTrouble(f"{plan.scenario} did not start")

    rows, interrupted = recovery.run_each(
        ["kill-restart", "no-point"],
        lambda name: make({"workload": "recovery", "scenario": name}),
        run,
        messages.append,
    )
    assert [row.refused for row in rows] == ["kill-restart did not start", "no-point did not start"]
    assert not interrupted and not any(row.expected for row in rows) and len(messages) == 2


def test_names_with_commas_and_all_of_them() -> None:
    assert recovery.names("no-point, kill-restart") == ["no-point", "kill-restart"]
    assert recovery.names("") == list(SCENARIOS)
    with pytest.raises(BadInput, match="no such scenario"):
        recovery.names("kil-restart")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"workload": "recovery"}, "no such scenario"),
        ({"workload": "recovery", "scenario": "kil-restart"}, "did you mean kill-restart"),
        ({"scenario": "kill-restart"}, "--workload recovery"),
        ({"workload": "recovery", "scenario": "kill-restart", "cluster": "mock"}, "--cluster local"),
        ({"workload": "recovery", "scenario": "kill-restart", "nemesis": ["kill:leader"]}, "--nemesis"),
        ({"workload": "recovery", "scenario": "epochs-bad", "nodes": 1}, "3 or more"),
    ],
)
def test_conflicting_options_are_reported(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make(values)
