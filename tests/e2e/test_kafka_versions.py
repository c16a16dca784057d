"""Versions of Kafka: the main job on each, with ZooKeeper and KRaft, and with dedicated controllers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.distribution.versions import SERIES, modes
from harness.cluster.local import namespaces
from tests.conftest import absent, nightly_if
from tests.e2e.harness_command import HARNESS, LIGHT, PLAIN, Ran, footprint, left_behind, run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]

# CI tests the oldest and the newest version, the nightly job the others.
IN_CI = [("2.4", "zookeeper"), ("4.4", "kraft")]
ALL = [(series, metadata) for series, patch in SERIES.items() for metadata in modes(patch)]
SECONDS = "12"


def need_namespaces() -> None:
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"namespaces are refused: {reason}")


def completed(ran: Ran, f: str) -> list[dict[str, Any]]:
    return [op["value"] for op in ran.nemesis if op["f"] == f and op["extra"]["phase"] == "complete"]


def main_job(runs: Path, version: str, metadata: str) -> None:
    """A leader is killed, another broker becomes leader within seconds, and no record is lost."""
    ran = run(
        runs, "--nemesis", "leader-kill", "--acks", "all", "--kafka-version", version, "--metadata", metadata,
        "--time-limit", SECONDS, "--seed", "7", *LIGHT,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    kills = completed(ran, "kill")
    assert kills and all(kill["took_effect"] and kill["new_leaders"] for kill in kills), kills
    assert f"Kafka {SERIES[version]}" in ran.out
    keepers = [path.name for path in (ran.folder / "logs").glob("z*")]
    assert len(keepers) == (3 if metadata == "zookeeper" else 0)
    assert all((ran.folder / "logs" / name / "server.log").stat().st_size for name in keepers)


@pytest.mark.parametrize(
    ("version", "metadata"), [nightly_if(each not in IN_CI, *each, id="-".join(each)) for each in ALL]
)
def test_the_main_job(tmp_path: Path, version: str, metadata: str) -> None:
    before = footprint()
    main_job(tmp_path, version, metadata)
    assert left_behind(before) == {}


def test_the_controller_is_a_node_of_its_own(tmp_path: Path) -> None:
    """The active controller is killed, another one takes over, and no partition needs a new leader."""
    need_namespaces()
    before = footprint()
    ran = run(
        tmp_path, "--controllers", "3", "--nemesis", "kill:controller", "--acks", "all",
        "--time-limit", SECONDS, "--seed", "7", *LIGHT,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    kills = completed(ran, "kill")
    assert kills, ran.nemesis
    for kill in kills:
        assert kill["took_effect"] and "new_leaders" not in kill, kills
        assert len(kill["nodes"]) == 1 and kill["nodes"][0][0] == kill["controller"][0] == "c", kills
        assert kill["nodes"] != [kill["controller"]], kills
    assert left_behind(before) == {}


def test_two_runs_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    """With the same seed and the same folder of runs, they have different names, addresses and ports."""
    need_namespaces()
    before = footprint()
    common = [*HARNESS, "run", "--runs", str(tmp_path), "--quiet", "--nodes", "1", "--acks", "all",
              "--time-limit", "5", "--seed", "7", *PLAIN, *LIGHT]  # fmt: skip
    running = [
        subprocess.Popen([*common, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for more in (["--network", "loopback"], ["--network", "loopback"], ["--outside"])
    ]
    outputs = [process.communicate(timeout=240)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    folders = [path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(folders) == 3
    assert left_behind(before) == {}
