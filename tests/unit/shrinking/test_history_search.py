"""Parts of simulated histories with bugs: small, judged by the whole checker, and read plainly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checker.check import check_plain
from harness.model import op_json
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import NEMESIS, Op, polls, sends
from harness.shrinking import shrink_run
from harness.sim.queue.run import simulate
from tests.unit.report.folders import judged, killed, recorded, woven
from tests.unit.shrinking.reading import read_plainly

# Bug, whether transactions, anomaly, the most operations that show it, beside invocations that completed.
CASES = [
    ("lose-acked", False, "lost-write", 4),
    ("lose-acked", True, "unseen", 2),
    ("truncate-acked", True, "lost-write", 5),
    ("truncate-acked", False, "inconsistent-offsets", 4),
    ("torn-transaction", True, "torn-transaction", 4),
    ("dirty-read", True, "G1a", 2),
    ("dirty-read", True, "G1c", 4),
    ("dirty-read", True, "G1c#1", 2),
    ("duplicate-on-retry", False, "duplicate", 3),
    ("repeat-poll", False, "nonmonotonic-poll", 3),
    ("start-beyond", True, "poll-skip", 8),
    ("aborted-offsets", True, "offset-regression", 4),
    ("phantom", False, "phantom-read", 1),
]


def options(txn: bool) -> CheckOptions:
    settings = Settings(txn=txn, isolation_level="read_committed", auto_offset_reset="earliest")
    return CheckOptions(settings=settings, require_final_polls=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def run_of(runs: Path, bug: str, txn: bool) -> tuple[Path, Result]:
    name = f"{bug}-{'txn' if txn else 'plain'}"
    if (runs / name).is_dir():
        return runs / name, judged(runs / name, options(txn))
    made = recorded(runs, name, simulate(1, ops=400, txn=txn, bugs=frozenset({bug})), txn=txn)
    return made, judged(made, options(txn))


@pytest.mark.parametrize(("bug", "txn", "anomaly", "most"), CASES)
def test_a_few_operations_show_it(runs: Path, bug: str, txn: bool, anomaly: str, most: int) -> None:
    run, result = run_of(runs, bug, txn)
    small = shrink_run.of_run(run, result, anomaly, options(txn))
    assert small.shrunk.minimal and small.shrunk.units <= most < small.whole
    again = check_plain(small.folder, options(txn))
    shrink_run.confirm(small, again)
    assert {anomaly.name for anomaly in again.anomalies if anomaly.bad} <= {
        anomaly.name for anomaly in result.anomalies
    }
    assert again.valid != "valid"  # a part of a history is never called valid
    read_plainly(small.chosen.anomaly.name, small.chosen.witness, small.shrunk.ops)
    text = shrink_run.text(small, again)
    assert f"{small.title} is shown by {small.shrunk.units} operation" in text

    before = small.shrunk
    assert shrink_run.of_run(run, result, anomaly, options(txn)).shrunk.ops == before.ops  # no chance is involved
    recorded_ops = {op.index: op for op in _ops(run)}
    for op in before.ops:  # what is left is as it was recorded, but for what was cut away
        whole = recorded_ops[op.index]
        assert (op.time_ns, op.process, op.type, op.f) == (whole.time_ns, whole.process, whole.type, whole.f)
        assert _rows(op) <= _rows(whole)


def _ops(run: Path) -> list[Op]:
    lines = (run / "history" / "00000.jsonl").read_bytes().splitlines()[1:]
    return [op_json.decode(line) for line in lines]


def _rows(op: Op) -> set[str]:
    return {repr(row) for row in sends(op) + polls(op)}


def test_every_witness_of_a_number_and_the_faults_beside_it(runs: Path) -> None:
    load = simulate(3, ops=300, txn=False, bugs=frozenset({"lose-acked"}))
    last = max(op.time_ns for op in load) / 1e9
    run = recorded(runs, "faults", woven(load, killed(0.0, last, "n1")))
    result = judged(run, options(False))
    small = shrink_run.of_run(run, result, "lost-write#3", options(False))
    assert small.folder.name == "lost-write-3"
    assert [op.f for op in small.faults] == ["kill", "kill", "restart", "restart"]
    assert "fault kill:leader: kill" in shrink_run.text(small, check_plain(small.folder, options(False)))
    assert not shrink_run.of_run(run, result, "lost-write", options(False), faults=False).faults
    assert all(op.process != NEMESIS for op in small.shrunk.ops)


def test_what_cannot_be_made_smaller_is_said(runs: Path) -> None:
    honest = recorded(runs, "honest", simulate(2, ops=100, txn=False))
    with pytest.raises(BadInput, match="no anomaly was found"):
        shrink_run.of_run(honest, judged(honest, options(False)), None, options(False))
    run, result = run_of(runs, "lose-acked", False)
    with pytest.raises(BadInput, match="not among the anomalies of this run"):
        shrink_run.of_run(run, result, "G1c", options(False))
    (found,) = [anomaly for anomaly in result.anomalies if anomaly.name == "lost-write"]
    edited = replace(result, anomalies=(replace(found, witnesses=({"key": 1},)),))
    with pytest.raises(BadInput, match="harness check"):
        shrink_run.of_run(run, edited, "lost-write", options(False))
    other = recorded(runs, "other", simulate(9, ops=50, txn=False))
    judged(other, options(False))
    with pytest.raises(BadInput, match="harness check"):  # results of another history
        shrink_run.of_run(other, result, "lost-write", options(False))
