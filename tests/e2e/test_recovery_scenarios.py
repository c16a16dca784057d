"""Recovery scenarios on real brokers: three of them, and all with --soak."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.local import disks, namespaces
from harness.experiments import recovery
from tests.conftest import absent
from tests.e2e.harness_command import PLAIN, harness
from workloads.recovery.scenarios import SCENARIOS

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1500)]

ALONE = ("kill-restart", "tail-last-only")  # a single server is enough
REPLICATED = ("flip-last-leader",)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Adds every scenario with --soak."""
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", SCENARIOS if metafunc.config.getoption("--soak") else REPLICATED)


def _rows(runs: Path, *arguments: str) -> list[recovery.Row]:
    done = harness("run", "--workload", "recovery", "--runs", str(runs), "--quiet", *PLAIN, *arguments, timeout_s=1400)
    assert "Traceback" not in done.stderr, done.stderr
    rows = recovery.stored(runs)
    assert rows and all(row.expected for row in rows), f"{done.stdout}\n{done.stderr}"
    assert done.returncode in (0, 1, 2), done.stderr
    return rows


def test_what_one_server_recovers(tmp_path: Path) -> None:
    rows = _rows(tmp_path, "--scenario", ",".join(ALONE), "--nodes", "1")
    assert [row.scenario for row in rows] == list(ALONE)
    killed, torn = (row.result.statistics["recovery"]["starts"][0] for row in rows if row.result is not None)
    assert 0 < killed["recovered"] < killed["segments"]
    assert "corrupt" in torn["said"]


def test_a_scenario(tmp_path: Path, scenario: str) -> None:
    needs = SCENARIOS[scenario].needs
    if "disks" in needs and disks.why_not():
        absent(disks.why_not())
    if "network" in needs and not namespaces.available()[0]:
        absent(namespaces.available()[1])
    (row,) = _rows(tmp_path, "--scenario", scenario)
    assert row.scenario == scenario and row.result is not None
    compared = row.result.statistics["recovery"]["replicas"]
    assert any(one["compared"][1] > 0 for one in compared) or SCENARIOS[scenario].settings.get("nodes") == 1
