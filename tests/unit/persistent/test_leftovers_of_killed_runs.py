"""Leftovers are distinguished from what is in use; named clusters are found by name."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness import history_writer
from harness.cli.app import invoke
from harness.cluster.local import capacity, disks, process_owner
from harness.cluster.persistent import client
from harness.cluster.persistent.client import State
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.persistent import leftovers_of_killed_runs
from tests.conftest import absent


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def cluster(name: str, owner: str) -> None:
    client.folder(name).mkdir(parents=True)
    client.write(State(name, "local", owner, "2026-01-01T00:00:00Z"))


def run(runs: Path, name: str, owner: str | None) -> Path:
    data = runs / name / "cluster" / "nodes"
    data.mkdir(parents=True)
    (data / "data").write_bytes(b"x" * 100)
    if owner is not None:
        (runs / name / history_writer.OWNER).write_text(owner)
    return data.parent


def test_only_leftovers_without_an_owner_are_listed_and_removed(tmp_path: Path) -> None:
    me, gone = process_owner.owner(os.getpid()), "boot/1/1"
    cluster("mine", me)
    cluster("gone", gone)
    client.folder("half").mkdir()
    runs = tmp_path / "runs"
    alive, dead, old = run(runs, "a", me), run(runs, "b", gone), run(runs, "c", None)
    found = leftovers_of_killed_runs.find("local", runs)
    assert {(one.kind, one.name) for one in found} == {
        ("cluster", "gone"),
        ("cluster", "half"),
        ("data", str(dead)),
        ("data", str(old)),
    }
    assert leftovers_of_killed_runs.remove(found, print) == 0
    assert alive.exists() and client.folder("mine").exists()
    assert not dead.exists() and not old.exists() and dead.parent.exists()
    assert leftovers_of_killed_runs.find("local", runs) == []


def test_clean_asks_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = run(tmp_path / "runs", "b", "boot/1/1")
    ask = ["cluster", "clean", "--runs", str(tmp_path / "runs")]
    assert invoke(ask) == 0
    answer = capsys.readouterr()
    assert str(dead) in answer.out and "add --yes" in answer.err and dead.exists()
    assert invoke([*ask, "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [str(dead)]
    assert invoke([*ask, "--yes"]) == 0 and not dead.exists()
    capsys.readouterr()
    assert invoke([*ask, "--yes"]) == 0
    assert "no leftovers were found" in capsys.readouterr().out
    assert invoke(["cluster", "clean", "--cluster", "moon"]) == 254
    assert invoke(["cluster", "clean", "--cluster", "ssh"]) == 254


def test_finding_a_cluster_by_name_or_none() -> None:
    with pytest.raises(BadInput, match="start it with: harness cluster up x"):
        client.find("x")
    me = process_owner.owner(os.getpid())
    cluster("a", me)
    assert client.find().name == "a" and client.find("a", "local").pid == os.getpid()
    cluster("b", me)
    with pytest.raises(BadInput, match=r"several clusters are up \(local:a, local:b\)"):
        client.find()
    with pytest.raises(BadInput, match="no docker cluster a is up"):
        client.find("a", "docker")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["up", "Not/A/Name"], "a name consists of a-z"),
        (["up", "x", "--cluster", "mock"], "only local, docker, ssh clusters can be persistent"),
        (["down", "nobody"], "no cluster nobody"),
        (["down"], "harness cluster up"),
        (["logs"], "harness cluster up"),
        (["shell", "n1"], "harness cluster up"),
        (["status", "nobody"], "harness cluster up nobody"),
    ],
)
def test_bad_input_is_one_message(command: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["cluster", *command]) == 254
    assert message in capsys.readouterr().err
    assert not client.names()


def test_too_little_disk_space_is_reported_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    capacity.require(1, tmp_path / "not" / "there" / "yet")
    monkeypatch.setattr(capacity, "free_bytes", lambda folder: 100 << 20)
    with pytest.raises(Missing, match="100 MB are free"):
        capacity.require(1, tmp_path)
    monkeypatch.setattr(capacity, "available_bytes", lambda: 900 << 20)
    with pytest.raises(Missing, match=r"3 servers need 1005 MB, but only 900 MB are available"):
        capacity.require(3, tmp_path)


def test_a_loop_device_of_a_finished_run(tmp_path: Path) -> None:
    if disks.why_not():
        absent(disks.why_not())
    runs = tmp_path / "runs"
    image = run(runs, "b", "boot/1/1") / "nodes" / "n1" / "disk.img"
    image.parent.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 1 << 20)
    losetup = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(losetup, check=True, capture_output=True, text=True).stdout.strip()
    try:
        found = leftovers_of_killed_runs.find("local", runs)
        assert ("loop", device) in {(one.kind, one.name) for one in found}
        assert leftovers_of_killed_runs.remove(found, print) == 0
        assert not Path(f"/sys/block/{Path(device).name}/loop/backing_file").exists()
        assert leftovers_of_killed_runs.find("local", runs) == []
    finally:
        subprocess.run(["losetup", "-d", device], check=False, capture_output=True)
