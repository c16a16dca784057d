"""The applications of examples/apps under faults on real brokers: each keeps what it promises, or is found not to.

The pages docs/understand/applications.md and docs/start/your-application.md have the results of longer runs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.e2e.harness_command import run

APPS = Path(__file__).parents[2] / "examples" / "apps"
BUILD = "mvn --batch-mode --quiet --strict-checksums compile && sha256sum --check --quiet jars.sha256"
BUILD_S = 900
RUN_S = 600
FAULTS = ("--nemesis", "kill:client,pause:client,leader-kill", "--nemesis-first", "4", "--nemesis-interval", "8")
# An instance loses orders only if it is killed after the commit of orders that it is still processing.
KILLS = ("--nemesis", "kill:client", "--nemesis-first", "4", "--nemesis-interval", "4")
LOAD = ("--workload", "app", "--partitions", "4", "--rate", "40", "--client-user", "root", "--time-limit", "28")
# The default timeouts of a streams group are 45 s (session) and 5 s (heartbeats).
STREAMS_GROUP = (
    "--kafka-version=4.3",
    "--broker-config=group.streams.min.session.timeout.ms=6000",
    "--broker-config=group.streams.session.timeout.ms=6000",
    "--broker-config=group.streams.min.heartbeat.interval.ms=1000",
    "--broker-config=group.streams.heartbeat.interval.ms=1000",
)
SLOW_START = ("--nemesis-interval", "25", "--nemesis-first", "8", "--time-limit", "60", "--final-time-limit", "240")


def build(folder: Path) -> None:
    """Builds an application with Maven, in its folder."""
    if shutil.which("mvn") is None:
        absent("mvn is not installed")
    done = subprocess.run(BUILD, shell=True, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.timeout(BUILD_S + RUN_S + 60)
@pytest.mark.parametrize(
    ("description", "anomaly", "options"),
    [
        ("kafka-streams/exactly-once.yaml", None, FAULTS),
        ("kafka-streams/streams-group.yaml", None, (*FAULTS, *STREAMS_GROUP)),
        ("kafka-streams/at-least-once.yaml", None, FAULTS),
        ("kafka-streams/wrong-promise.yaml", "duplicate-output", FAULTS),
        ("message-copier/exactly-once.yaml", None, FAULTS),
        ("flink/exactly-once.yaml", None, FAULTS),
        ("spark/at-least-once.yaml", None, (*FAULTS, *SLOW_START)),
        ("aiokafka/loses.yaml", "missing-output", KILLS),
    ],
)
def test_each_has_its_verdict(tmp_path: Path, description: str, anomaly: str | None, options: tuple[str, ...]) -> None:
    path = APPS / description
    if (path.parent / "pom.xml").exists():
        assert BUILD in path.read_text(), "its comment says how to build it"
        build(path.parent)
    ran = run(tmp_path, *LOAD, "--app", str(path), *options, timeout_s=RUN_S, spark_master="local[2]")
    figures = ran.result["statistics"]["pipeline"]
    assert figures["inputs"] == figures["done"] > 100, ran.out
    if anomaly is None:
        assert ran.code == 0, ran.out + ran.err
    else:
        assert ran.code == 1, ran.out + ran.err
        assert anomaly in ran.anomalies
