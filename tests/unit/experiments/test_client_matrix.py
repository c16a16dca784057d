"""The client matrix: which cells exist and are chosen, in which order they run, and what the report contains."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.clients.exec import examples
from harness.clients.exec.adapter import CAPABILITIES
from harness.experiments.client_matrix import axes, carry_out, programs, report, run
from harness.experiments.client_matrix.axes import Cell
from harness.experiments.client_matrix.pairwise import covering, pairs
from harness.experiments.client_matrix.programs import Program
from harness.experiments.client_matrix.report import Results
from harness.experiments.client_matrix.run import ALLOWED, INVALID, NOT_RUN, UNKNOWN, VALID, Ran
from harness.model.errors_and_exit_codes import BadInput

LIBRARIES = {
    "all": CAPABILITIES,
    "no-groups": ("produce", "consume"),
    "no-transactions": ("produce", "consume", "idempotence", "groups"),
}
LINE_CLIENT = Path(__file__).parents[2] / "e2e" / "line_client.py"

cells_of_three = st.lists(st.tuples(*[st.sampled_from("abcd")] * 3), unique=True, max_size=40)


@settings(max_examples=100, deadline=None)
@given(cells_of_three, st.integers(0, 5))
def test_every_pair_of_an_allowed_combination_is_covered(allowed: list[tuple[str, ...]], seed: int) -> None:
    chosen = covering(allowed, seed)
    assert set(chosen) <= set(allowed) and len(set(chosen)) == len(chosen)
    assert {pair for each in chosen for pair in pairs(each)} == {pair for each in allowed for pair in pairs(each)}
    assert covering(allowed[::-1], seed) == chosen


def test_ten_libraries_fit_into_the_limit() -> None:
    allowed = axes.cells({f"library-{n}": CAPABILITIES for n in range(10)})
    design = covering(allowed, 1)
    assert len(allowed) > 400 and len(design) <= run.RUNS_MAX / 2
    assert covering(allowed, 2) != design


def test_which_cells_exist_follows_from_capabilities_and_faults() -> None:
    cells = axes.cells(LIBRARIES)
    assert {cell.mode for cell in cells if cell.library == "no-groups"} == {"plain"}
    assert {cell.mode for cell in cells if cell.library == "no-transactions"} == {
        "plain",
        "idempotent",
        "classic group",
    }
    assert {cell.mode for cell in cells if cell.fault == "late EndTxn"} == {"transactional", "exactly once"}
    assert {cell.mode for cell in cells if cell.fault == "rebalances"} == {
        "classic group",
        "consumer group",
        "exactly once",
    }
    why = {(each.name, each.mode): each.why for each in axes.absent(LIBRARIES)}
    assert why["no-groups", "classic group"] == "the library has no groups"
    assert "needs transactions, but no client uses any" in why["late EndTxn", "plain"]
    assert Counter(cell.library for cell in cells)["all"] == len(axes.FAULTS) * len(axes.MODES) - 7


def test_a_library_without_idempotence_gets_plans_without_it() -> None:
    assert axes.plan_fields("none", "classic group", ("produce", "consume", "groups"))["idempotence"] is False
    assert axes.plan_fields("none", "classic group", CAPABILITIES)["idempotence"] is True


ONE, TWO = Cell("x", "none", "plain"), Cell("y", "kill:leader", "plain")


def _ran(cell: Cell, seed: int = 1, verdict: str = VALID) -> Ran:
    return Ran(*cell, seed, verdict, 2.0, f"runs/{cell.library}{seed}", {"G1a": 3} if verdict == INVALID else {}, "why")


def test_a_cell_that_is_invalid_or_unknown_is_repeated_with_two_more_seeds() -> None:
    assert run.due([ONE, TWO], [], 1) == [(ONE, 1), (TWO, 1)]
    assert run.due([ONE, TWO], [_ran(ONE, 1, INVALID)], 1) == [(TWO, 1), (ONE, 2), (ONE, 3)]
    assert run.due([ONE], [_ran(ONE, 1, UNKNOWN), _ran(ONE, 2)], 1) == [(ONE, 3)]
    assert run.due([ONE], [_ran(ONE, 1, NOT_RUN)], 1) == [(ONE, 1)]
    assert run.due([ONE, TWO], [_ran(ONE), _ran(TWO, 1, ALLOWED)], 1) == []


def test_the_order_the_limit_and_the_budget() -> None:
    said: list[str] = []
    verdicts = {(ONE, 1): INVALID, (TWO, 1): NOT_RUN}

    def attempt(cell: Cell, seed: int) -> Ran:
        return _ran(cell, seed, verdicts.get((cell, seed), VALID))

    def order(limit: int, done: tuple[Ran, ...] = (), budget_s: float = 60) -> list[tuple[str, int]]:
        return [(ran.library, ran.seed) for ran in run.run([ONE, TWO], done, attempt, 1, budget_s, said.append, limit)]

    assert order(9) == [("x", 1), ("y", 1), ("x", 2), ("x", 3)]
    assert order(2) == [("x", 1), ("y", 1), ("x", 2)]  # what was not run does not count
    assert "2 runs are the limit: 2 runs are done, 1 more are due" in said[-1]
    assert order(9, (_ran(ONE), _ran(TWO))) == []
    assert order(9, budget_s=0) == []
    assert "the time budget is used up: 0 runs are done, 2 more are due" in said[-1]
    slow = replace(_ran(ONE), seconds=30)
    assert order(9, (slow,), budget_s=29) == [] and order(9, (slow,), budget_s=40) == [("y", 1)]


RESULTS = Results(
    1,
    "4.1.1",
    ("x", "y", "z"),
    (
        Program("x", "exec:x", "Library X", "1.2.3", ("produce", "consume")),
        Program("y", "exec:y", "Library Y", "4", CAPABILITIES),
    ),
    {"z": "the build failed"},
    (ONE, TWO),
    tuple(axes.absent({"x": ("produce", "consume")})),
    (_ran(ONE, 1, INVALID), _ran(ONE, 2), _ran(TWO, 1, UNKNOWN)),
)


def test_the_report_names_everything(tmp_path: Path) -> None:
    report.write(tmp_path, RESULTS)
    text = (tmp_path / "report.md").read_text()
    assert "2 of 2 cells in 3 runs" in text
    assert "| x | **invalid** (G1a) 1 | - |" in text
    assert "| y | - | unknown 1 |" in text and "on Kafka 4.1.1" in text
    assert "| z | not run | not run |" in text
    assert "- x, none, plain: 1 of 2 runs: G1a 3; `runs/x1`" in text
    assert "- y, kill:leader, plain: 1 of 1 runs: why; `runs/y1`" in text
    assert "- z: the build failed" in text
    assert "- x in idempotent: the library has no idempotence" in text
    assert "- x: Library X 1.2.3" in text
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["runs"][0]["anomalies"] == {"G1a": 3} and stored["design"][0]["fault"] == "none"


def test_a_cell_is_unknown_only_if_none_of_its_runs_could_be_judged() -> None:
    runs = (_ran(ONE, 1, UNKNOWN), _ran(ONE, 2), _ran(ONE, 3), _ran(TWO, 1, UNKNOWN), _ran(TWO, 2, INVALID))
    text = report.document(replace(RESULTS, runs=runs))
    assert "| x | valid 1 | - |" in text and "| y | - | **invalid** (G1a) 1 |" in text
    assert "- x, none, plain: 1 of 3 runs: why; `runs/x1`" in text


def test_results_are_continued(tmp_path: Path) -> None:
    assert report.continued(tmp_path) is None
    report.write(tmp_path, RESULTS)
    assert report.continued(tmp_path) == (1, ("x", "y", "z"), RESULTS.runs)
    (tmp_path / "results.json").write_text('{"experiment": "acks-1", "schema": 1}')
    with pytest.raises(BadInput, match="does not contain results of client-matrix"):
        report.continued(tmp_path)


def test_exit_codes() -> None:
    valid = replace(RESULTS, runs=(_ran(ONE), _ran(TWO)), failed={})
    assert report.exit_code(valid) == 0
    assert report.exit_code(RESULTS) == 1
    for other in (replace(valid, runs=(_ran(ONE),)), replace(valid, failed=RESULTS.failed)):
        assert report.exit_code(other) == 2
    assert report.exit_code(replace(valid, runs=(_ran(ONE), _ran(TWO, 1, UNKNOWN)))) == 2


def test_a_program_that_cannot_be_built_does_not_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, build in (("franz-go", "mkdir -p build"), ("rskafka", "no-such-compiler build")):
        (tmp_path / name).mkdir()
        text = f"library: x\nlanguage: Rust\nbuild: {build}\noutput: build\ncommand: {sys.executable} {LINE_CLIENT}\n"
        (tmp_path / name / "client.yaml").write_text(text)
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    said: list[str] = []
    ready, failed = programs.prepare(["franz-go", "rskafka"], "root", said.append)
    assert set(ready["franz-go"].capabilities) == set(CAPABILITIES)
    assert "`no-such-compiler`, which builds it, is not installed" in failed["rskafka"]
    assert "rskafka does not take part" in said[-1]


def test_names() -> None:
    assert programs.names("franz-go, sarama") == ["franz-go", "sarama"] and len(programs.names("")) == 10
    with pytest.raises(BadInput, match="did you mean sarama"):
        programs.names("saramo")


def test_another_seed_does_not_continue(tmp_path: Path) -> None:
    report.write(tmp_path, replace(RESULTS, only=("franz-go",)))
    with pytest.raises(BadInput, match="--seed 1 and --case franz-go"):
        carry_out.planned("", 2, "4.1.1", tmp_path, "root", print)
