"""Repeating a plan, and shrinking it, with the real commands on the simulated log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness.plan import plan_file
from harness.stored import find_runs
from tests.e2e.harness_command import PLAIN, harness, run

# One client at full speed: only the duration can be reduced, and only once, so the search completes. At both durations
# it also tries the log without its bug, which is a setting of the plan.
SMALL = ("--time-limit", "2.8", "--final-time-limit", "30", "--rate", "0", "--concurrency", "1")
SIZE = ("time_limit_s", "concurrency", "rate_hz", "nemesis", "schedule")


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_an_anomaly_comes_again_and_a_smaller_plan_shows_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "--cluster", "sim", "--sim-bugs", "lose-acked", "--seed", "7", *SMALL)
    assert ran.code == 1 and "lost-write" in ran.anomalies, ran.out + ran.err

    again = harness("replay", str(ran.folder), "--runs", "2", "--json", "--runs-dir", str(tmp_path), *PLAIN)
    assert again.returncode == 0, again.stdout + again.stderr
    replayed = json.loads(again.stdout)
    came = {row["anomaly"]: (row["k"], row["n"], row["before"]) for row in replayed["came"]}
    assert came["lost-write"] == (2, 2, True)
    folders = {Path(one["folder"]).resolve() for one in replayed["runs"]}
    assert len(folders - {ran.folder}) == 2
    assert all(find_runs.plan_of(folder)["seed"] == 7 for folder in folders)
    assert "run 2 of 2: invalid: " in again.stderr and "lost-write" in again.stderr

    small = harness(
        "shrink", str(ran.folder), "--schedule", "--anomaly", "lost-write", "--runs", "1", "--budget", "600s",
        "--runs-dir", str(tmp_path), *PLAIN, timeout_s=700,
    )  # fmt: skip
    assert small.returncode == 0, small.stdout + small.stderr
    target = ran.folder / "shrunk" / "schedule" / "plan.yaml"
    assert "lost-write in 1 of 1 runs; 4 plans were tried; no smaller plan shows it" in small.stdout
    assert f"next: harness run --plan {target}" in small.stdout
    plan, whole = plan_file.load(target), plan_file.load(ran.folder / "plan.yaml")
    assert (whole.time_limit_s, plan.time_limit_s) == (2.8, 2.1)
    assert (plan.cluster, plan.sim_bugs, plan.seed) == ("sim", whole.sim_bugs, 7)
    # One of the runs was made with exactly this plan, and shows the anomaly.
    size = _size(yaml.safe_load(target.read_text()))
    same = [row.path for row in find_runs.rows(tmp_path) if _size(find_runs.plan_of(row.path)) == size]
    results = [find_runs.result_of(folder) for folder in same]
    assert any(result is not None and "lost-write" in [one.name for one in result.anomalies] for result in results)


def _size(plan: object) -> list[object]:
    assert isinstance(plan, dict)
    return [plan.get(name) for name in SIZE]
