"""A harness that is killed or interrupted: leftovers, and what its history still contains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.run import check_and_draw
from tests.e2e.harness_command import HARNESS, LIGHT, PLAIN, footprint, harness, left_behind, ops
from tests.e2e.waiting import wait_for_load, wait_until_gone

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]


@pytest.mark.repeat(3, 25, 100)
@pytest.mark.long
def test_a_killed_harness_leaves_nothing_but_its_history(tmp_path: Path, repetition: int) -> None:
    before = footprint()
    options = "--nemesis leader-isolate,client-crash --nemesis-first 1 --nemesis-interval 3 --time-limit 60"
    command = [*HARNESS, "run", "--runs", str(tmp_path), *PLAIN, *LIGHT, *options.split()]
    with (tmp_path / "out").open("wb") as out:
        victim = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        folder = wait_for_load(tmp_path, ops_min=250)
        # Each repetition at another phase of the faults, which change every 3 s.
        time.sleep(0.4 * (repetition * 7 % 25 + repetition // 25 * 25))
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    wait_until_gone(before)
    dispatched = sum(1 for op in ops(folder) if op["type"] == "invoke")
    result = check_and_draw.check_run(folder, check_and_draw.options_of(folder), None, print)
    assert result.valid in ("invalid", "unknown")
    assert result.statistics["ops"] == dispatched
    if repetition == 0:
        done = harness("check", str(folder))
        assert done.returncode in (1, 2), done.stdout + done.stderr
        again = harness("show", "--json", str(folder))
        assert again.returncode == 0
        assert json.loads(again.stdout)["statistics"]["ops"] == dispatched


@pytest.mark.long
def test_ctrl_c_heals_saves_and_checks(tmp_path: Path) -> None:
    before = footprint()
    command = [*HARNESS, "run", *LIGHT, "--runs", str(tmp_path), "--nemesis", "leader-kill", "--time-limit", "60"]
    with (tmp_path / "out").open("wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    folder = wait_for_load(tmp_path, ops_min=600)
    meanwhile = left_behind(before)
    assert len(meanwhile["processes"]) >= 4 and meanwhile["namespaces"]  # proves that the check finds them
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=240) == 130
    faults = [op["f"] for op in ops(folder) if op["process"] == "nemesis"]
    assert faults[-1] == "heal"
    assert (folder / "results.json").exists()
    assert "interrupted" in (tmp_path / "out").read_text()
    assert left_behind(before) == {}
