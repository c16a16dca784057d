"""The local cluster for an ordinary user: namespaces without root. Run by `make rootless`."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.cluster.local import clock_library, disks, link_faults, namespaces
from harness.model.capabilities import LinkQuality
from tests.conftest import absent
from tests.e2e.harness_command import HARNESS, LIGHT, footprint, left_behind, run
from tests.e2e.waiting import wait_for_load, wait_until_gone
from tests.unit.cluster.test_link_faults import HOSTS, Net, quick

pytestmark = [pytest.mark.rootless, pytest.mark.cluster]


@pytest.fixture(autouse=True)
def ordinary_user() -> None:
    if os.geteuid() == 0:
        absent("root runs these through `make rootless`")
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"user namespaces are refused: {reason}")


def test_a_leader_is_isolated_and_acks_1_loses_records(tmp_path: Path) -> None:
    before = footprint()
    ran = run(tmp_path, "--nemesis", "leader-isolate", "--acks", "1", "--time-limit", "25")
    assert ran.code == 1, ran.out + ran.err
    assert "lost-write" in ran.anomalies
    assert left_behind(before) == {}


def test_links_and_clocks_can_be_bad_and_disks_cannot(tmp_path: Path) -> None:
    assert clock_library.why_not() == ""
    assert "root" in disks.why_not()
    assert link_faults.why_not() == ""
    net = Net(tmp_path)
    try:
        net.faults.degrade(HOSTS, ["a"], LinkQuality(delay_ms=100), 1)
        taken = net.ms("a", "b")
        assert taken is not None and taken >= 200
        net.faults.restore()
        assert quick(net.ms("a", "b"))
    finally:
        net.control.close()


def test_a_killed_harness_leaves_nothing(tmp_path: Path) -> None:
    before = footprint()
    command = [*HARNESS, "run", *LIGHT, "--runs", str(tmp_path), "--nemesis", "leader-kill", "--time-limit", "60"]
    with (tmp_path / "out").open("wb") as out:
        victim = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for_load(tmp_path, ops_min=600)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    wait_until_gone(before)
