"""The search for a smaller plan, with fake runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.cli.app import invoke
from harness.plan import make_plan, plan_file
from harness.plan.test_plan import TestPlan
from harness.shrinking import plan_search, replay, shrink_schedule
from harness.shrinking.plan_search import Injection, Size
from harness.shrinking.replay import Repeat
from harness.sim.queue.run import simulate
from harness.stored.fault_spans import Span
from tests.unit.report.folders import judged, recorded

S = 1_000_000_000
FIRST = Size(("isolate:leader", "kill:leader"), (), 60.0, 10, 200.0)
WRITTEN = Size(
    (),
    tuple(
        Injection(fault, at, 5.0)
        for fault, at in (
            ("kill:leader", 5.0),
            ("isolate:leader", 15.0),
            ("kill:leader", 25.0),
            ("isolate:leader", 35.0),
        )
    ),
    60.0,
    10,
    200.0,
)


def needs(size: Size) -> bool:
    """A bug that shows with one isolated leader, six seconds and two clients."""
    isolated = "isolate:leader" in (*size.rhythm, *(one.fault for one in size.injections))
    return isolated and size.seconds >= 6 and size.clients >= 2


def test_the_smallest_plan_is_found() -> None:
    found = plan_search.search(FIRST, WRITTEN, needs)
    best = found.best
    assert best is not None and found.whole
    assert best.rhythm == () and [one.fault for one in best.injections] == ["isolate:leader"]
    assert best.injections[0].at_s == plan_search.FIRST_S and best.injections[0].for_s == 5.0
    assert best.seconds <= 9 and best.clients == 2 and best.rate_hz == 1.0
    assert not any(needs(smaller) for smaller in plan_search.smaller(best))
    assert found.tried < 60


def test_a_plan_that_does_not_show_it_is_no_start_and_a_budget_ends_the_search() -> None:
    assert plan_search.search(FIRST, WRITTEN, lambda size: False).best is None
    answers = iter([True, False, True, None])
    found = plan_search.search(FIRST, WRITTEN, lambda size: next(answers))
    assert found.best == Size(("kill:leader",), (), 60.0, 10, 200.0)
    assert not found.whole and found.tried == 4


def _trial(answers: list[bool], budget_s: float = 1e9) -> tuple[shrink_schedule.Trial, list[TestPlan]]:
    made: list[TestPlan] = []
    now = [0.0]

    def run(plan: TestPlan) -> Repeat:
        made.append(plan)
        now[0] += 10
        return Repeat("invalid", {"lost-write": 1} if answers[len(made) - 1] else {"duplicate": 2})

    plan = make_plan.make({"seed": 4, "acks": "1", "nemesis": ("isolate:leader",)})
    return shrink_schedule.Trial(plan, "lost-write", 3, budget_s, run, lambda text: None, lambda: now[0]), made


def test_a_majority_of_the_runs_decides_and_no_unneeded_run_is_made() -> None:
    size = Size(("isolate:leader",), (), 60.0, 10, 200.0)
    for answers, shown, runs in (
        ([True, True], True, 2),
        ([False, False], False, 2),
        ([True, False, True], True, 3),
    ):
        trial, made = _trial(answers)
        assert trial.shows(size) is shown and len(made) == runs
        assert [plan.seed for plan in made] == [4, 5, 6][:runs]
    trial, made = _trial([True, True, True], budget_s=25)
    assert trial.shows(size) is True
    assert trial.shows(FIRST) is None and len(made) == 2  # a third run might exceed the budget
    trial, _ = _trial([])
    assert trial.shows(Size((), (Injection("kill:leader", 70.0, 5.0),), 60.0, 10, -1.0)) is False  # an invalid plan


def test_a_plan_is_made_of_what_a_run_did() -> None:
    plan = make_plan.make({"nemesis": ("kill:leader",), "time_limit_s": 30, "acks": "1", "seed": 1})
    on = [
        Span("kill:leader", ("n1",), 5 * S, 10 * S, True),
        Span("kill:leader", ("n2",), 15 * S, 20 * S, False),  # without effect
        Span("kill:leader", ("n2",), 25 * S, None, True),
        Span("kill:leader", ("n2",), 31 * S, None, True),  # while healing
    ]
    size = shrink_schedule.written(plan, on)
    assert size is not None
    assert size.injections == (Injection("kill:leader", 5.0, 5.0), Injection("kill:leader", 25.0, 5.0))
    made = shrink_schedule.plan_for(plan, size, 2)
    assert made.nemesis == () and made.seed == 3 and made.acks == "1"
    assert [(line.fault, line.at, line.for_) for line in made.schedule] == [
        ("kill:leader", 5.0, 5.0),
        ("kill:leader", 25.0, 5.0),
    ]
    assert make_plan.make(yaml.safe_load(plan_file.dump(made))) == made

    listed = make_plan.make({"schedule": [{"fault": "kill:n1", "at": 1}, {"fault": "pause:n1", "at": 2}], "seed": 1})
    assert shrink_schedule.written(listed, on) is None
    fewer = next(plan_search.smaller(shrink_schedule.size_of(listed)))
    assert [line.fault for line in shrink_schedule.plan_for(listed, fewer, 0).schedule] == ["pause:n1"]


def test_settings_that_do_not_matter_are_left_out() -> None:
    plan = make_plan.make({"txn": True, "log_dirs": 2, "racks": 3, "key_count": 5, "seed": 1, "workload": "queue"})
    size = shrink_schedule.size_of(plan)
    assert size.settings == ("log_dirs", "racks", "txn", "key_count")
    best = plan_search.search(size, None, lambda one: "txn" in one.settings).best
    assert best is not None and best.settings == ("txn",)
    assert str(best).endswith("; with txn")
    smaller = shrink_schedule.plan_for(plan, best, 0)
    assert (smaller.txn, smaller.log_dirs, smaller.racks, smaller.key_count) == (True, 1, 0, 12)


def test_how_often_an_anomaly_was_seen_again(tmp_path: Path) -> None:
    before = {"lost-write": 7, "unseen": 7}
    ran = [
        Repeat("invalid", {"lost-write": 5, "unseen": 5}),
        Repeat("valid"),
        Repeat("unknown", why="did not heal"),
        Repeat("invalid", {"duplicate": 1}),
    ]
    rows = {row.anomaly: (row.k, row.n, row.before) for row in replay.came(before, ran)}
    assert rows == {"lost-write": (1, 3, True), "unseen": (1, 3, True), "duplicate": (1, 3, False)}
    text = replay.text(before, ran)
    assert "lost-write seen again in 1 of 3 runs (95%: 6% to 79%)" in text
    assert "1 of 4 runs have an unknown verdict" in text
    assert replay.exit_code(before, ran) == 0
    assert replay.exit_code(before, [Repeat("valid")]) == 1
    assert replay.exit_code(before, [Repeat("unknown")]) == 2
    assert replay.exit_code({}, [Repeat("valid")]) == 0
    assert replay.exit_code({}, [Repeat("invalid", {"duplicate": 1})]) == 1
    assert replay.exit_code({}, [Repeat("valid"), Repeat("unknown")]) == 2
    assert replay.data(before, ran)["came"][0]["k"] == 1


def test_runs_that_cannot_be_repeated_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = recorded(tmp_path, "one", simulate(1, ops=60, txn=False, bugs=frozenset({"lose-acked"})))
    where = ["--runs-dir", str(tmp_path)]
    for command in ("shrink", "replay"):
        assert invoke([command, "one", *where]) == 254
        assert "not judged yet" in capsys.readouterr().err
    assert "lost-write" in {found.name for found in judged(made).anomalies}
    wrong = {
        "'soon' is not a duration": ["shrink", "one", "--schedule", "--budget", "soon"],
        "G1c: not among the anomalies of this run": ["shrink", "one", "--schedule", "--anomaly", "G1c"],
        "a number, counted from 1": ["shrink", "one", "--anomaly", "lost-write#x"],
    }
    for text, arguments in wrong.items():
        assert invoke([*arguments, *where]) == 254
        assert text in capsys.readouterr().err
    (made / "plan.yaml").unlink()
    assert invoke(["replay", "one", *where]) == 254
    assert "no plan.yaml" in capsys.readouterr().err
