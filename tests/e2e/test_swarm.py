"""The project's own swarm on real brokers, for some minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiments.swarm import report
from tests.e2e.harness_command import footprint, harness, left_behind

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.alone]

SWARM = Path(__file__).parents[2] / "swarm.yaml"
BUDGET_S = 480


@pytest.mark.timeout(BUDGET_S + 120)
def test_rounds_end_with_a_verdict_and_findings_are_shrunk(tmp_path: Path) -> None:
    before = footprint()
    out, runs = tmp_path / "out", tmp_path / "runs"
    options = ("--budget", str(BUDGET_S), "--shrink", "150", "--out", str(out), "--runs", str(runs))
    done = harness("swarm", str(SWARM), *options, timeout_s=BUDGET_S + 60)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = report.read(out)
    assert found is not None
    _, rounds, shrunk = found
    assert len(rounds) >= 3
    assert [each for each in rounds if each.verdict == "not run"] == []
    judged = [each for each in rounds if each.verdict in ("valid", "invalid")]
    assert len(judged) * 2 > len(rounds), (out / "summary.md").read_text()
    assert all(each.summary for each in shrunk.values())
    assert left_behind(before) == {}
