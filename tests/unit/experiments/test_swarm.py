"""Swarms: which plans are drawn, how results are grouped, and that an interrupted swarm is continued."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.swarm import swarm as command
from harness.experiments.swarm import report, run, spec
from harness.experiments.swarm.draw_rounds import Round, drawn
from harness.experiments.swarm.run import Done, Shrunk
from harness.experiments.swarm.spec import Swarm
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BadInput
from harness.plan import make_plan

ROOT = Path(__file__).parents[3]
FILES = [ROOT / "swarm.yaml", *sorted((ROOT / "examples" / "swarms").glob("*.yaml"))]
PLAIN = Swarm({"time_limit_s": 5}, {"keys": ({"key_count": 2}, {"key_count": 9})}, ("kill:leader", "pause:client"), 2)


def done(number: int, verdict: str = "valid", *anomalies: str) -> Done:
    return Done(Round(number, {"seed": 1}, ("txn True",)), verdict, anomalies, f"runs/{number}", 2.0)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_the_rounds_of_the_projects_own_swarms_are_valid_plans_and_use_every_feature(file: Path) -> None:
    features = spec.load(file)
    rounds = [drawn(features, 1, n, spec.is_plan) for n in range(150)]
    for each in rounds:
        make_plan.make(each.plan)
        assert len(each.plan.get("schedule", ())) <= features.faults_max
    seen = {feature for each in rounds for feature in each.features}
    assert set(features.faults) <= seen
    assert len(seen) == len(features.faults) + sum(map(len, features.axes.values()))


def test_the_seed_and_the_number_determine_a_round() -> None:
    assert drawn(PLAIN, 1, 7, spec.is_plan) == drawn(PLAIN, 1, 7, spec.is_plan)
    assert len({repr(drawn(PLAIN, seed, 7, spec.is_plan)) for seed in range(20)}) > 10


def test_a_feature_that_is_not_possible_with_the_others_is_left_out() -> None:
    axes = {"a": ({"upgrade_to": "4.4"},), "b": ({"kafka_version": "4.3"},)}
    rounds = [drawn(Swarm({}, axes), 1, n, lambda fields: "upgrade_to" not in fields) for n in range(30)]
    assert {feature for each in rounds for feature in each.features} == {"kafka_version 4.3"}


def test_every_fault_has_an_interval_of_its_own() -> None:
    lines = [line for n in range(40) for line in drawn(PLAIN, 1, n, spec.is_plan).plan.get("schedule", ())]
    assert {line["fault"] for line in lines} == {"kill:leader", "pause:client"}
    assert len({line["every"] for line in lines}) > 3
    counts = Counter(len(drawn(PLAIN, 1, n, spec.is_plan).plan.get("schedule", ())) for n in range(40))
    assert set(counts) == {0, 1, 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes: {a: [{nemesys: []}]}\n", "s.yaml:1:13: nemesys: no such key; did you mean nemesis?"),
        ("faults: [kil:leader]\n", "s.yaml:1:10: "),
        ("plan: {acks: x}\nfaults: [kill:leader]\n", "s.yaml:1:14: acks x: "),
        ("axis: {}\n", "s.yaml:1:1: axis: no such key; did you mean axes"),
        ("plan: {acks: all}\n", "nothing to draw from"),
    ],
)
def test_mistakes_are_reported_with_their_position(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(BadInput) as raised:
        spec.load(tmp_path / "s.yaml")
    assert message in str(raised.value)


def test_rounds_with_the_same_most_severe_anomaly_are_one_finding() -> None:
    rounds = [done(0), done(1, "invalid", "lost-write", "unseen"), done(2, "invalid", "lost-write"), done(3, "unknown")]
    assert {name: len(found) for name, found in report.findings(rounds).items()} == {"queue: lost-write": 2}
    assert report.counts(rounds) == "4 rounds: 2 invalid, 1 valid, 1 unknown"
    assert run.exit_code(rounds) == EXIT_INVALID
    assert run.exit_code([done(0), done(3, "unknown")]) == EXIT_VALID
    assert run.exit_code([done(0, "invalid")]) == EXIT_VALID  # nothing that Kafka rules out
    assert run.exit_code([done(3, "unknown")]) == EXIT_UNKNOWN


def test_results_are_written_and_read_again(tmp_path: Path) -> None:
    rounds = [replace(done(0, "not run"), why="no | jar"), done(1, "invalid", "G1a")]
    small = {"queue: G1a": Shrunk(True, "runs/1/shrunk/schedule/plan.yaml", "smallest: ...")}
    report.write(tmp_path, 5, rounds, small)
    assert report.read(tmp_path) == (5, rounds, small)
    summary = (tmp_path / "summary.md").read_text()
    assert "| queue: G1a | 1 of 2 | runs/1 | runs/1/shrunk/schedule/plan.yaml |" in summary
    assert "| 0 | not run | no \\| jar |" in summary
    assert report.read(tmp_path / "none") is None
    (tmp_path / report.FILE).write_text("{}")
    with pytest.raises(BadInput, match="does not contain results of a swarm"):
        report.read(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_bug_of_the_simulated_log_is_found_and_repeated_and_the_swarm_continues(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "plan: {cluster: sim, time_limit_s: 1, concurrency: 2, rate_hz: 200, sim_bugs: [lose-acked]}\n"
        "axes: {workload: [{txn: true}]}\n"
    )
    out, runs = tmp_path / "out", tmp_path / "runs"
    assert command(tmp_path / "s.yaml", budget="3m", rounds=1, shrink="40s", out=out, runs_dir=runs) == EXIT_INVALID
    first = report.read(out)
    assert first is not None
    seed, rounds, small = first
    assert (seed, rounds[0].finding) == (1, "queue: lost-write")
    assert small["queue: lost-write"].summary
    with pytest.raises(BadInput, match="has a swarm with --seed 1"):
        command(tmp_path / "s.yaml", seed=2, out=out, runs_dir=runs)
    command(tmp_path / "s.yaml", budget="1m", rounds=1, shrink="0", out=out, runs_dir=runs)
    again = report.read(out)
    assert again is not None
    assert again[1][:1] == rounds
    assert [each.round.number for each in again[1]] == [0, 1]
