"""Run folders of earlier versions stay usable: checked with the same result, displayed, served, and repeated.

The archives are real runs, without the data of the brokers' disks.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from harness.cli.app import invoke
from harness.run import check_and_draw, make_cluster
from harness.shrinking import replay
from harness.web.site import Site

ARCHIVES: Final = Path(__file__).parents[1] / "fixtures" / "runs"
NAMES: Final = ("queue", "pipeline", "recovery")


@pytest.fixture(params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path / "runs")


def unpacked(name: str, runs: Path) -> Path:
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(runs, filter="data")
    (folder,) = runs.iterdir()
    return folder


def results_of(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    results["statistics"].get("recovery", {}).pop("replicas", None)  # needs the brokers' disks
    return results


def judged_again(folder: Path, session: Any) -> dict[str, Any]:
    check_and_draw.check_run(folder, check_and_draw.options_of(folder), session, lambda text: None)
    return results_of(folder)


def assert_same(now: dict[str, Any], before: dict[str, Any]) -> None:
    assert now["valid"] == before["valid"]
    counts = [[(anomaly["name"], anomaly["count"]) for anomaly in results["anomalies"]] for results in (now, before)]
    assert counts[0] == counts[1]
    later = {name: figure for name, figure in now["statistics"].items() if name not in before["statistics"]}
    assert now["statistics"] == later | before["statistics"]  # a later version may count more


@pytest.mark.parametrize("name", ["queue", "recovery"])
def test_it_is_judged_as_it_was(tmp_path: Path, name: str) -> None:
    folder = unpacked(name, tmp_path / "runs")
    before = results_of(folder)
    assert_same(judged_again(folder, None), before)


@pytest.mark.long
@pytest.mark.spark
def test_a_pipeline_is_judged_as_it_was(tmp_path: Path, spark: Any) -> None:
    folder = unpacked("pipeline", tmp_path / "runs")
    before = results_of(folder)
    assert_same(judged_again(folder, spark), before)


def test_it_is_shown_and_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, before = folder.parent, results_of(folder)
    assert invoke(["show", folder.name, "--runs", str(runs)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith({True: "VALID", False: "INVALID"}[before["valid"]])
    for anomaly in before["anomalies"]:
        assert anomaly["name"] in shown
    assert invoke(["page", folder.name, "--runs", str(runs)]) == 0
    assert folder.name in (folder / "report.html").read_text()


def test_it_is_served(folder: Path) -> None:
    site = Site(folder.parent)
    for target in ("/", f"/runs/{folder.name}/index.html"):
        answer = site.answer(target)
        assert answer.status == 200
        assert folder.name in answer.body.decode()


def test_its_plan_is_carried_out_again(folder: Path) -> None:
    resolved = make_cluster.resolved(replay.plan_of(folder))
    text = (folder / "plan.yaml").read_text()
    assert f"seed: {resolved.plan.seed}" in text
    assert all(re.search(rf"^- {fault}$", text, re.M) for fault in resolved.plan.nemesis)
    assert resolved.workload.name == resolved.plan.workload
