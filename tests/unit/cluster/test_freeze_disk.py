"""Stalling disks, and that no stall outlives the supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cluster.local import disks, freeze_disk, namespaces
from tests.conftest import absent

# A supervisor with a disk that is frozen for a minute, and a process that waits to write to it.
HARNESS = """
import sys, time
from pathlib import Path
from harness.cluster.local import supervisor_client, disks, namespaces, remote_process
from harness.cluster.local.node_files import NodeFiles
from harness.cluster.local.disk_stalls import Stalls
folder = Path(sys.argv[1])
(folder / "n1" / "data").mkdir(parents=True)
c = supervisor_client.Control(True, folder / "supervisor.log")
env = {"PYTHONPATH": namespaces.python_path()}
inside = lambda module, *rest: remote_process.run(c, "", [sys.executable, "-m", module, *rest], 60, env).out
files = NodeFiles({"n1": folder / "n1"}, inside)
files.make_disks()
print(max(files.write_ms("n1")), flush=True)
stalls = Stalls(lambda argv, fds: remote_process.spawn(c, "", argv, env, fds, str(folder / "log")))
stalls.begin("n1", files.data("n1"), 0.3, 0.05)
print(max(files.write_ms("n1")), flush=True)
stalls.end()
print(max(files.write_ms("n1")), flush=True)
stalls.begin("n1", files.data("n1"), 60.0, 1.0)
remote_process.spawn(c, "", ["touch", files.data("n1") + "/x"], {}, [], str(folder / "log"))
time.sleep(0.3)
print("held", flush=True)
if sys.argv[2] == "close":
    c.close()
time.sleep(60)
"""


def loop_files() -> str:
    return "".join(path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file"))


@pytest.mark.parametrize("how", ["close", "kill"])
def test_a_disk_stalls_and_the_end_of_all_thaws_it(need_namespaces: None, tmp_path: Path, how: str) -> None:
    if why := disks.why_not():
        absent(why)
    argv = [sys.executable, "-c", HARNESS, str(tmp_path), how]
    env = {**os.environ, "PYTHONPATH": namespaces.python_path()}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as harness:
        assert harness.stdout is not None
        before, during, after = (float(harness.stdout.readline()) for _ in range(3))
        assert during > 200, (before, during, after)
        assert after < during
        assert harness.stdout.readline() == "held\n"
        assert str(tmp_path) in loop_files()
        if how == "close":
            _gone(str(tmp_path))
        harness.kill()
    _gone(str(tmp_path))


def _gone(folder: str) -> None:
    deadline = time.monotonic() + 15
    while folder in loop_files():
        assert time.monotonic() < deadline, loop_files()
        time.sleep(0.05)


def test_ext4_mounts_are_found_by_their_names(tmp_path: Path) -> None:
    info = tmp_path / "mountinfo"
    info.write_text(
        "29 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "30 29 0:5 / /dev rw shared:2 - devtmpfs dev rw\n"
        r"31 29 7:0 / /tmp/a\040b rw - ext4 /dev/loop0 rw" + "\n"
    )
    with info.open() as file:
        assert freeze_disk.mounted(file.fileno()) == {"/", "/tmp/a b"}
        assert freeze_disk.mounted(file.fileno()) == {"/", "/tmp/a b"}


def test_what_is_not_frozen_is_left_alone(tmp_path: Path) -> None:
    freeze_disk.thaw_all([str(tmp_path), "/no/such/place"])
