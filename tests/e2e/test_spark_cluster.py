"""Checks on two Spark workers that share nothing with the driver, and with each other, except an S3 server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench.histories import Shape, make, write_log
from tests.e2e import isolated_workers, s3_server
from tests.e2e.harness_command import HARNESS, PLAIN
from tests.e2e.isolated_workers import DRIVER, MASTER, Workers
from tests.e2e.s3_server import S3

pytestmark = [pytest.mark.long, pytest.mark.timeout(s3_server.BUILD_S)]  # the first test may build the server
RUNS = "s3://bucket/runs"
CHECK_S = 600.0


@dataclass(frozen=True)
class Place:
    """Where the driver runs: beside the store and the master."""

    workers: Workers
    environment: Mapping[str, str]

    def start(self, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
        command = self.workers.inside(*HARNESS, *arguments)
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=cwd, env=dict(self.environment), **pipes)

    def harness(self, *arguments: str, cwd: Path, codes: tuple[int, ...] = (0, 1, 2)) -> str:
        """Runs a command. Returns what it printed; what it printed as errors if it was to fail."""
        child = self.start(*arguments, cwd=cwd)
        out, err = child.communicate(timeout=CHECK_S)
        assert child.returncode in codes, out + err
        return out if child.returncode in (0, 1, 2) else err

    def answer(self, name: str, *master: str, cwd: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.harness("check", "--json", name, *master, cwd=cwd))
        return found


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    s3_server.program()
    with isolated_workers.running(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def place_of(workers: Workers, s3: S3) -> Place:
    return Place(workers, {**os.environ, **s3.environment, "SPARK_LOCAL_IP": DRIVER})


@pytest.fixture(scope="module")
def place(workers: Workers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("s3") / "objects"
    with s3_server.running_inside(folder, workers.inside(), DRIVER) as s3:
        yield place_of(workers, s3)


def generated(folder: Path, ops: int, segment_bytes: int) -> Path:
    """A run with a generated history."""
    run = folder / "runs" / "20260101T000000-generated"
    write_log(make(Shape(ops, 16)), run, segment_bytes=segment_bytes)
    (run / "plan.yaml").write_text(f"run: {run.name}\nworkload: queue\n")
    return run


def test_the_workers_have_neither_the_project_nor_its_packages(workers: Workers) -> None:
    for number in range(2):
        files = workers.listing(number)
        assert len(files) > 1000 and any("/jars/spark-core" in file for file in files)
        assert not [file for file in files if "harness/model" in file or "checker/tables" in file]
        for module in ("numpy", "pyarrow", "orjson", "scipy", "harness", "checker"):
            done = workers.python(number, f"import {module}")
            assert f"No module named '{module}'" in done.stderr


def test_a_lossy_run_whose_harness_was_killed(tmp_path: Path, place: Place) -> None:
    faults = ("--nemesis", "leader-isolate", "--acks", "1", "--seed", "1")
    load = ("--time-limit", "60", "--rate", "200", "--concurrency", "4")
    options = [*faults, *load, "--runs", RUNS, *PLAIN, "--quiet"]
    environment = {**place.environment, "HARNESS_SEGMENT_BYTES": "200000"}
    victim = Place(place.workers, environment).start("run", *options, cwd=tmp_path)
    deadline = time.monotonic() + 180
    while len([*tmp_path.glob("runs/*/history/*.jsonl")]) < 4:
        assert victim.poll() is None and time.monotonic() < deadline, victim.communicate()
        time.sleep(0.2)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    (run,) = (path for path in (tmp_path / "runs").iterdir() if not path.is_symlink())
    uri = f"{RUNS}/{run.name}"
    place.harness("upload", str(run), RUNS, cwd=tmp_path)
    local = place.answer(str(run), *PLAIN, cwd=tmp_path)
    assert local["statistics"]["ops"] > 100
    assert place.answer(uri, "--spark-master", MASTER, cwd=tmp_path) == local


def test_a_store_that_is_overloaded(tmp_path: Path, workers: Workers) -> None:
    run = generated(tmp_path, 20_000, 1_000_000)
    with s3_server.running_inside(tmp_path / "s3" / "objects", workers.inside(), DRIVER, every=10) as s3:
        place = place_of(workers, s3)
        place.harness("upload", str(run), RUNS, cwd=tmp_path)
        uri = f"{RUNS}/{run.name}"
        there = place.answer(uri, "--spark-master", MASTER, cwd=tmp_path)
        assert there == place.answer(str(run), *PLAIN, cwd=tmp_path)
    assert len(json.loads((tmp_path / "s3" / "refused.json").read_text())) > 5


@pytest.mark.nightly
def test_an_executor_with_another_python(tmp_path: Path, place: Place) -> None:
    run = generated(tmp_path, 2000, 1_000_000)
    place.harness("upload", str(run), RUNS, cwd=tmp_path)
    other = Place(place.workers, {**place.environment, "PYSPARK_PYTHON": "python3.99"})
    message = other.harness("check", f"{RUNS}/{run.name}", "--spark-master", MASTER, cwd=tmp_path, codes=(254,))
    assert "an executor has no python3.99, and this command runs Python" in message
    assert message.count("\n") == 1


@pytest.mark.nightly
def test_the_secret_is_only_in_the_environment(tmp_path: Path, place: Place) -> None:
    """Neither Spark's event log and web page nor command lines and files of the run contain it."""
    run = generated(tmp_path, 2000, 1_000_000)
    place.harness("upload", str(run), RUNS, cwd=tmp_path)
    events, conf = tmp_path / "events", tmp_path / "conf"
    events.mkdir()
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{events}\n"
    )
    logged = Place(place.workers, {**place.environment, "SPARK_CONF_DIR": str(conf)})
    secret = place.environment["AWS_SECRET_ACCESS_KEY"].encode()
    seen: list[bytes] = []
    ended = threading.Event()
    fetch = (
        "import json, urllib.request as r; u = 'http://10.64.0.1:4040/api/v1/applications'; "
        "i = json.load(r.urlopen(u, timeout=5))[0]['id']; "
        "print(r.urlopen(u + '/' + i + '/environment', timeout=5).read().decode())"
    )

    def watch() -> None:
        while not ended.wait(1):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # the process has ended
                    seen.append(file.read_bytes())
            command = place.workers.inside(sys.executable, "-c", fetch)
            page = subprocess.run(command, capture_output=True, timeout=30, check=False).stdout
            if page:
                seen.append(page)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        logged.harness("check", f"{RUNS}/{run.name}", "--spark-master", MASTER, cwd=tmp_path)
    finally:
        ended.set()
        watcher.join(60)
    pages = [page for page in seen if b"AWS_SECRET_ACCESS_KEY" in page]
    assert pages and any(b"org.apache.spark.deploy.SparkSubmit" in line for line in seen)
    assert not any(secret in page for page in seen)
    files = [file for folder in (tmp_path, place.workers.folder) for file in folder.rglob("*") if file.is_file()]
    assert any(file.is_relative_to(events) and b"AWS_SECRET_ACCESS_KEY" in file.read_bytes() for file in files)
    assert not [file for file in files if secret in file.read_bytes()]


def test_a_worker_that_is_killed(tmp_path: Path, place: Place) -> None:
    """The last test: the worker does not come back."""
    run = generated(tmp_path, 1_000_000, 16 << 20)
    place.harness("upload", str(run), RUNS, cwd=tmp_path)
    uri = f"{RUNS}/{run.name}"
    child = place.start("check", "--json", uri, "--spark-master", MASTER, cwd=tmp_path)
    log = place.workers.folder / "worker0.log"
    before = log.read_text().count("Asked to launch executor")
    deadline = time.monotonic() + 180
    while log.read_text().count("Asked to launch executor") == before:
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(15)  # the packages are there, and tasks run
    assert child.poll() is None, "the check ended too early"
    place.workers.kill(0)
    out, err = child.communicate(timeout=CHECK_S)
    assert child.returncode in (0, 1, 2), err
    assert json.loads(out) == place.answer(str(run), *PLAIN, cwd=tmp_path)
