"""Applications under faults on real brokers: the mended example keeps its promise, and those with mistakes do not."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from tests.e2e.harness_command import footprint, harness, left_behind, run

APPS = Path(__file__).parents[2] / "examples" / "apps" / "python"
# The interval is longer than the session timeout (6 s), so that the instances that are killed have partitions again.
FAULTS = ("--nemesis", "kill:client", "--nemesis-first", "5", "--nemesis-interval", "9")
LOAD = ("--workload", "app", "--partitions", "4", "--rate", "40", "--client-user", "root")


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_mended_application_keeps_its_promise(tmp_path: Path) -> None:
    before = footprint()
    ran = run(
        tmp_path, *LOAD, "--app", str(APPS / "exactly_once.yaml"), *FAULTS, "--time-limit", "15",
        timeout_s=400, spark_master="local[2]",
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    figures = ran.result["statistics"]["pipeline"]
    assert figures["inputs"] == figures["done"] == figures["outputs"] > 100
    hit = [name for op in ran.nemesis if op["f"] == "kill" for name in (op["value"] or {}).get("clients", ())]
    assert hit
    assert "w0" not in hit, "the writer is not hit"
    assert not left_behind(before)
    assert "--allow-commands" in harness("run", "--plan", str(ran.folder / "plan.yaml")).stderr


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "anomaly"), [("loses", "missing-output"), ("doubles", "duplicate-output")])
def test_mistakes_are_found(tmp_path: Path, name: str, anomaly: str) -> None:
    ran = run(
        tmp_path, *LOAD, "--app", str(APPS / f"{name}.yaml"), *FAULTS, "--time-limit", "25",
        timeout_s=400, spark_master="local[2]",
    )  # fmt: skip
    assert ran.anomalies == {anomaly}, ran.out
    assert ran.code == 1
    assert f"INVALID: {anomaly}" in ran.out
    assert "The application promises exactly-once." in ran.out
    assert {found["promised"] for found in ran.result["anomalies"]} == {None}


@pytest.mark.long
@pytest.mark.spark
def test_an_application_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    before = footprint()
    path = tmp_path / "app.yaml"
    path.write_text(
        "command: sh -c 'id -un; touch {state}/file && echo no such option; exit 3'\n"
        "input: {template: '{id}'}\noutput: {id: {key: true}}\npromise: at-least-once\n"
    )
    options = ("--cluster", "mock", "--partitions", "4", "--spark-master", "local[1]", "--runs", str(tmp_path / "runs"))
    done = harness("run", "--quiet", "--workload", "app", "--app", str(path), *options)
    assert done.returncode == 254, done.stdout + done.stderr
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    assert "of the application exited with code 3 before it was ready" in done.stderr
    assert f"it printed last: {user} | no such option" in done.stderr
    plan = tmp_path / "runs" / "latest" / "plan.yaml"
    started, *printed = (plan.parent / "logs" / "app-0.log").read_text().splitlines()
    assert started.startswith("[harness, ") and "] started: " in started and printed == [user, "no such option"]
    assert json.loads((plan.parent / "pipeline" / "pipeline.json").read_text())["application"] == {"outputs": 1}
    assert not left_behind(before)
