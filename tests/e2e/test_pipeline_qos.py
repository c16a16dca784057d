"""A pipeline's mistakes on real brokers: by the check of the finished run, and by `harness qos` meanwhile.

The cases are those of the experiment `pipeline-mistakes`, one after another.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster.persistent import client
from harness.experiments import spec
from tests.e2e.harness_command import HARNESS, Ran, harness
from tests.e2e.test_pipeline_exactly_once import lines, outputs
from tests.e2e.test_qos import lines as windows
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]
# Brokers, pipeline, its check and the live check share the cores of one machine: batches take 5 to 18 s each.
WINDOW_S, PADDING_S = 20, 15
CASES = spec.named("pipeline-mistakes").cases
FIRST = next(case for case in CASES if case.name == "abort-without-rewind")
IN_TURN = (FIRST, *(case for case in CASES if case != FIRST))


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, str]]:
    """(name, address) of brokers that stay."""
    name = f"test-{secrets.token_hex(3)}"
    done = harness("cluster", "up", name, "--outside", timeout_s=240)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        (told,) = json.loads(harness("cluster", "status", name, "--json").stdout)
        yield name, told["outside_bootstrap"]
    finally:
        if client.folder(name).exists():
            harness("cluster", "down", name, "--force", timeout_s=180)


def first_alarm(checkpoint: Path, live: subprocess.Popen[str]) -> tuple[dict[str, Any], float] | None:
    """The first window with an anomaly, and how many seconds after its padding it was told."""
    while True:
        ended = live.poll() is not None
        for window in windows(checkpoint).values():
            if window["missing"] or window["duplicate"]:
                return window, time.time() - window["start_ms"] / 1000 - WINDOW_S - PADDING_S
        if ended:
            return None
        time.sleep(0.2)


def sums(checkpoint: Path) -> Mapping[str, int]:
    """Over all windows."""
    told = windows(checkpoint).values()
    return {name: sum(one[name] for one in told) for name in ("in", "missing", "duplicate")}


@pytest.mark.repeat(1, 3 * len(CASES))
def test_the_live_check_agrees_with_that_of_the_finished_run(
    cluster: tuple[str, str], tmp_path: Path, repetition: int, request: pytest.FixtureRequest
) -> None:
    name, bootstrap = cluster
    case = IN_TURN[repetition % len(CASES)]
    runs, checkpoint, plan = tmp_path / "runs", tmp_path / "checkpoint", tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump(dict(case.plan)))
    argv = [
        *HARNESS, "run", "--plan", str(plan), "--cluster", f"local:{name}", "--keep-topics", "--quiet",
        "--runs", str(runs), "--seed", str(repetition),
    ]  # fmt: skip
    with (tmp_path / "run.out").open("w+") as out, (tmp_path / "qos.out").open("w+") as said:
        ran = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, text=True)
        try:
            at = runs / "latest" / "pipeline" / "pipeline.json"
            assert eventually(lambda: at.exists() or ran.poll() is not None, 120)
            about = json.loads(at.read_text())
            live = subprocess.Popen(
                [
                    *HARNESS, "qos", "--input", about["input"][0], "--output", about["output"][0],
                    "--bootstrap", bootstrap, "--pipeline", about["transform"], "--window", f"{WINDOW_S}s",
                    "--padding", f"{PADDING_S}s", "--every", "1s", "--until-idle", "30s",
                    "--checkpoint", str(checkpoint),
                ], stdout=said, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            try:
                alarm = first_alarm(checkpoint, live)
                live.wait(300)
            finally:
                live.kill()
            ran.wait(300)
        finally:
            ran.kill()
        judged = Ran(ran.returncode, (tmp_path / "run.out").read_text(), "", at.parent.parent.resolve())
        told = (tmp_path / "qos.out").read_text()

    shows = set(case.expect.shows)
    assert shows <= judged.anomalies, judged.out
    assert judged.code == (1 if shows else 0), judged.out
    # As many as the finished run's check has, and those of whom nothing was committed in the end.
    given, made = outputs(judged.folder)
    rows = lines(judged.folder, "pipeline/read-*.jsonl")
    everything = {row["id"] for row in rows if row.get("side") == "input"}
    found = sums(checkpoint)
    assert found["in"] == len(everything), told
    assert found["missing"] == len(everything - set(made)), told
    assert found["duplicate"] == len(made) - len(set(made)), told
    held = {one["name"]: one["count"] for one in judged.result["anomalies"]}
    assert held.get("missing-output", 0) == len(given - set(made)), judged.out
    assert held.get("duplicate-output", 0) == sum(times > 1 for times in Counter(made).values()), judged.out
    # Against what the writers themselves noted.
    sent = lines(judged.folder, "pipeline/sent-*.jsonl")
    acknowledged = {row["id"] for row in sent if row["outcome"] == "ok"}
    assert acknowledged <= everything <= {row["id"] for row in sent}
    if shows:
        assert alarm is not None, told
        window, late_s = alarm
        print(f"{case.name}: told {late_s:.1f} s after the padding of its window")
        assert {"place", "offset"} <= set(window["examples"][0]), window
        if request.config.getoption("--soak"):  # else other tests run beside it
            assert late_s <= 2 * WINDOW_S
