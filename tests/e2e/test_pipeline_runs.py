"""The pipeline on real brokers: exactly once under kills and rebalances, in a group with both libraries; and
a pipeline's bugs, found by the check of the finished run and by `harness qos` during the run.

The bugs are the cases of the experiment `pipeline-mistakes`, one after another.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.experiments import spec
from tests.e2e.harness_command import HARNESS, Ran, run
from tests.e2e.persistent_cluster import persistent_cluster, status
from tests.e2e.test_qos import windows
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]
# Brokers, pipeline, check and live check share the cores of one machine, so batches take 5 to 18 s each.
WINDOW_S, PADDING_S = 20, 15
CASES = spec.named("pipeline-mistakes").cases
FIRST = next(case for case in CASES if case.name == "abort-without-rewind")
IN_TURN = (FIRST, *(case for case in CASES if case != FIRST))
PIPELINE = ("--workload", "pipeline", "--instances", "3", "--partitions", "6", "--rate", "60", "--send-batch", "20")


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]


def outputs(folder: Path) -> tuple[set[int], list[int]]:
    """Ids of the committed input, and of each committed output."""
    offsets = json.loads((folder / "pipeline" / "committed.json").read_text())["offsets"]
    rows = [row for row in lines(folder, "pipeline/read-*.jsonl") if "end" not in row]
    given = {
        row["id"]
        for row in rows
        if row["side"] == "input" and row["offset"] < offsets.get(f"{row['topic']}/{row['partition']}", 0)
    }
    return given, [row["id"] for row in rows if row["side"] == "output" and row["committed"]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, str]]:
    """(name, address) of a named cluster."""
    with persistent_cluster("--outside") as name:
        yield name, status(name)["outside_bootstrap"]


def first_alarm(checkpoint: Path, live: subprocess.Popen[str]) -> tuple[dict[str, Any], float] | None:
    """The first window with an anomaly, and how many seconds after its padding it was reported."""
    while True:
        ended = live.poll() is not None
        for window in windows(checkpoint).values():
            if window["missing"] or window["duplicate"]:
                return window, time.time() - window["start_ms"] / 1000 - WINDOW_S - PADDING_S
        if ended:
            return None
        time.sleep(0.2)


def sums(checkpoint: Path) -> Mapping[str, int]:
    """Sums over all windows."""
    rows = windows(checkpoint).values()
    return {name: sum(row[name] for row in rows) for name in ("in", "missing", "duplicate")}


@pytest.mark.repeat(1, 20)
def test_exactly_once(cluster: tuple[str, str], tmp_path: Path, repetition: int) -> None:
    ran = run(
        tmp_path, "--cluster", f"local:{cluster[0]}", *PIPELINE, "--client", "confluent,java",
        "--transform", "aggregate", "--time-limit", "20",
        "--churn-interval", "5", "--nemesis", "kill:client", "--nemesis-interval", "8", "--nemesis-first", "6",
        "--final-time-limit", "240", timeout_s=540, spark_master="local[*]",
    )  # fmt: skip
    given, made = outputs(ran.folder)
    assert len(made) == len(set(made)), "an output twice"
    assert given, ran.out
    assert given == set(made)
    assert ran.code == 0, ran.out + ran.err
    errors = [op["error"] for op in lines(ran.folder, "history/*.jsonl") if op.get("f") == "work" and "error" in op]
    assert not [error for error in errors if "metadata" in error], "a library did not return what another committed"
    sent = {row["id"] for row in lines(ran.folder, "pipeline/sent-*.jsonl") if row["outcome"] == "ok"}
    assert sent <= given
    events = lines(ran.folder, "events/instance-*.jsonl")
    assert {"assigned", "revoked", "polled", "produced", "committed", "position"} <= {e["event"] for e in events}
    kills = [op["value"] for op in ran.nemesis if op["f"] == "kill" and op["extra"]["phase"] == "complete"]
    assert any(kill["took_effect"] for kill in kills), kills


@pytest.mark.repeat(0, 2, 3 * len(CASES))
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
    with (tmp_path / "run.out").open("w+") as out, (tmp_path / "qos.out").open("w+") as live_out:
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
                ], stdout=live_out, stderr=subprocess.STDOUT, text=True,
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
        live_output = (tmp_path / "qos.out").read_text()

    shows = set(case.expect.shows)
    assert shows <= judged.anomalies, judged.out
    assert judged.code == (1 if shows else 0), judged.out
    # As many as the check of the finished run counts, and those without any committed output.
    given, made = outputs(judged.folder)
    rows = lines(judged.folder, "pipeline/read-*.jsonl")
    everything = {row["id"] for row in rows if row.get("side") == "input"}
    found = sums(checkpoint)
    assert found["in"] == len(everything), live_output
    assert found["missing"] == len(everything - set(made)), live_output
    assert found["duplicate"] == len(made) - len(set(made)), live_output
    counts = {anomaly["name"]: anomaly["count"] for anomaly in judged.result["anomalies"]}
    assert counts.get("missing-output", 0) == len(given - set(made)), judged.out
    assert counts.get("duplicate-output", 0) == sum(times > 1 for times in Counter(made).values()), judged.out
    # Compare with the writers' own records.
    sent = lines(judged.folder, "pipeline/sent-*.jsonl")
    acknowledged = {row["id"] for row in sent if row["outcome"] == "ok"}
    assert acknowledged <= everything <= {row["id"] for row in sent}
    if shows:
        assert alarm is not None, live_output
        window, late_s = alarm
        print(f"{case.name}: told {late_s:.1f} s after the padding of its window")
        assert {"place", "offset"} <= set(window["examples"][0]), window
        if request.config.getoption("--soak"):  # otherwise other tests run at the same time
            assert late_s <= 2 * WINDOW_S
