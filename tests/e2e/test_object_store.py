"""The commands on runs in a real S3 server: upload, check, list, show, export, compare, and their errors."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from checker.tables import storage
from harness.cli.app import invoke
from tests.e2e import s3_server
from tests.e2e.harness_command import HARNESS, PLAIN
from tests.e2e.s3_server import S3
from tests.e2e.test_old_runs import unpacked
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(s3_server.BUILD_S)]  # the first test may build the server
RUNS = "s3://bucket/runs"
QUIET = ("--quiet", *PLAIN)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server.running(tmp_path_factory.mktemp("s3") / "objects") as started:
        yield started


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    shutil.rmtree(server.runs, ignore_errors=True)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def harness(*arguments: str) -> Done:
    """Runs a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = invoke([*arguments])
    return Done(code, out.getvalue(), err.getvalue())


def answer(*arguments: str) -> dict[str, Any]:
    """The result of `harness check`, without what depends on where the history is."""
    done = harness("check", "--json", *PLAIN, *arguments)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert {0: True, 1: False, 2: "unknown"}[done.returncode] == found["valid"]
    return found


def uploaded(folder: Path) -> str:
    done = harness("upload", str(folder), RUNS)
    assert done.returncode == 0, done.stderr
    return f"{RUNS}/{folder.name}"


def refused(*arguments: str) -> str:
    """The message of a command that fails: one line, and the exit code of bad input."""
    done = harness(*arguments)
    assert (done.returncode, done.stdout) == (254, ""), done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("harness: "), done.stderr
    return done.stderr


def test_a_run_in_a_store_is_judged_and_shown_like_a_local_one(
    tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked("queue", tmp_path / "runs")
    uri = uploaded(folder)
    shutil.rmtree(s3.runs / folder.name / "tables", ignore_errors=True)
    with s3_server.busy(s3, every=10) as (slow, refusals):  # the checks below meet them
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{slow.address}")
        there = answer(uri)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{s3.address}")
    assert refusals
    assert there == answer(str(folder))
    listed, shown, local = harness("list", "--runs", RUNS), harness("show", uri), harness("show", str(folder))
    assert folder.name in listed.stdout and shown.returncode == local.returncode == 0
    assert shown.stdout.splitlines()[:5] == local.stdout.splitlines()[:5]
    assert "harness-staged" not in shown.stdout
    compared = harness("compare", uri, str(folder))
    assert compared.returncode == 0, compared.stderr
    site = harness("serve", "--runs", RUNS, "--export", str(tmp_path / "site"))
    assert site.returncode == 0 and folder.name in (tmp_path / "site" / "index.html").read_text()
    exported = [tmp_path / "there.edn", tmp_path / "here.edn"]
    for out, name in zip(exported, (uri, str(folder)), strict=True):
        assert harness("export", name, "--out", str(out)).returncode == 0
    assert exported[0].read_bytes() == exported[1].read_bytes()
    assert secret_in(tmp_path, s3.folder, secret=s3.secret_key) == []
    assert s3.secret_key not in listed.stdout + shown.stdout


def secret_in(*folders: Path, secret: str) -> list[Path]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 30
    return [file for file in files if secret.encode() in file.read_bytes()]


def test_errors_are_one_line_each(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpacked("queue", tmp_path / "runs")
    uri = uploaded(folder)
    assert "no such bucket" in refused("check", *PLAIN, "s3://other/runs/1")
    assert "there is no run" in refused("show", f"{RUNS}/other")
    with monkeypatch.context() as wrong:
        wrong.setenv("AWS_SECRET_ACCESS_KEY", "0123456789abcdef")
        assert "the secret key is wrong" in refused("check", *PLAIN, uri)
        message = refused("run", "--cluster", "mock", "--runs", RUNS, *QUIET)
        assert "the secret key is wrong" in message and "0123456789abcdef" not in message
        wrong.setenv("AWS_ACCESS_KEY_ID", "SOMEBODY")
        assert "does not know the access key" in refused("list", "--runs", RUNS)
    stored = s3.runs / folder.name
    (stored / "history" / "00000.jsonl").rename(tmp_path / "taken")
    assert "history/00000.jsonl: it is missing" in refused("check", *PLAIN, uri)
    newer = {"schema": 7, "run": folder.name, "complete": True, "files": {}}
    storage.open_store(uri).write("upload.json", orjson.dumps(newer))
    assert "schema 7; this version reads schemas up to 1" in refused("check", *PLAIN, uri)


def test_the_upload_of_a_killed_run_is_judged_and_then_completed(tmp_path: Path, s3: S3) -> None:
    options = ("--cluster", "mock", "--time-limit", "60", "--rate", "200", "--concurrency", "4")
    environment = {**os.environ, "HARNESS_SEGMENT_BYTES": "20000"}
    command = [*HARNESS, "run", "--runs", RUNS, *QUIET, *options]
    with (tmp_path / "out").open("wb") as out:
        victim = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    try:
        stored = eventually(lambda: len([*s3.runs.glob("*/history/*.jsonl")]) >= 2, 120)
        assert stored, (tmp_path / "out").read_text()
        time.sleep(0.5)
    finally:
        victim.kill()
        victim.wait()
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if not path.is_symlink())
    uri = f"{RUNS}/{folder.name}"
    part = answer(uri)
    assert part["valid"] == "unknown"
    assert any("upload has not finished" in reason for reason in part["reasons"])
    assert harness("upload", str(folder), RUNS).returncode == 0
    whole = answer(uri)
    assert whole == answer(str(folder))
    assert whole["statistics"]["ops"] > part["statistics"]["ops"] > 0
    assert secret_in(tmp_path, s3.folder, secret=s3.secret_key) == []


def test_a_run_is_uploaded_when_it_ends(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--cluster", "mock", "--time-limit", "2")
    monkeypatch.chdir(tmp_path)
    done = harness("run", "--runs", RUNS, *QUIET, *options)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    folder = (tmp_path / "runs" / "latest").resolve()
    assert f"{RUNS}/{folder.name}" in done.stdout
    shown = harness("show", "--json", f"{RUNS}/{folder.name}")
    assert json.loads(shown.stdout) == json.loads(harness("show", "--json", str(folder)).stdout)
