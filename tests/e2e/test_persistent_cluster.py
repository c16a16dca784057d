"""A named cluster: it takes one run at a time, and is healthy and empty after each, even after a killed one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster.local import process_owner
from harness.cluster.persistent import client
from tests.e2e.harness_command import HARNESS, LIGHT, PLAIN, harness
from tests.e2e.persistent_cluster import persistent_cluster, status
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with persistent_cluster() as name:
        yield name


def healthy(name: str) -> Callable[[], bool]:
    def check() -> bool:
        now = status(name)
        return not now["held"] and not now["trouble"] and all(node["running"] for node in now["nodes"])

    return check


def started(runs: Path, name: str, *options: str) -> subprocess.Popen[str]:
    argv = [*HARNESS, "run", "--runs", str(runs), "--quiet", "--cluster", f"local:{name}", *PLAIN, *LIGHT]
    argv += options
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def topics(name: str) -> list[str]:
    views = client.call_method(name, "views")
    return sorted({topic for topic, _ in views[0].partitions if not topic.startswith("__")})


def test_one_run_at_a_time_and_nothing_is_left(cluster: str, tmp_path: Path) -> None:
    running = started(tmp_path / "runs", cluster, "--time-limit", "10", "--nemesis", "leader-kill")
    try:
        assert eventually(lambda: bool(topics(cluster)), 60)
        holder = status(cluster)["held"]
        assert f"pid {running.pid}" in holder and "kill-leader" in holder
        second = harness("run", "--runs", str(tmp_path / "other"), "--cluster", f"local:{cluster}")
        assert second.returncode == 254 and f"is in use by run {holder.split()[1]}" in second.stderr
        assert not list((tmp_path / "other").iterdir())
        down = harness("cluster", "down", cluster)
        assert down.returncode == 254 and "--force" in down.stderr
        out, err = running.communicate(timeout=240)
    finally:
        running.kill()
    assert running.returncode == 0, out + err
    assert "leader-kill" in out or "kill:leader: 1 time, 1 took effect" in out, out
    assert healthy(cluster)(), status(cluster)
    assert topics(cluster) == []


def test_what_a_killed_run_broke_is_mended_and_removed(cluster: str, tmp_path: Path) -> None:
    faults = ("--nemesis", "kill:one,pause:clients", "--nemesis-first", "1", "--nemesis-interval", "100")
    running = started(tmp_path / "runs", cluster, "--time-limit", "120", *faults)
    try:
        assert eventually(lambda: not all(node["running"] for node in status(cluster)["nodes"]), 90)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert eventually(healthy(cluster), 90), status(cluster)
    left = status(cluster)["left_topics_of"]
    assert len(left) == 1 and topics(cluster)
    again = started(tmp_path / "runs", cluster, "--time-limit", "3")
    out, err = again.communicate(timeout=200)
    assert again.returncode == 0, out + err
    assert topics(cluster) == [] and status(cluster)["left_topics_of"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", "5"), "--nodes 5: the cluster {name} was started with 3; omit the option"),
        (("--nemesis", "power-loss:all"), "Disks: the cluster {name} was started without"),
        (("--cluster", "docker:{name}"), "no docker cluster {name} is up"),
        (("--cluster", "local:nobody"), "start it with: harness cluster up nobody"),
    ],
)
def test_what_does_not_go_with_the_cluster(
    cluster: str, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    given = [option.format(name=cluster) for option in options]
    done = harness("run", "--runs", str(tmp_path / "runs"), "--cluster", f"local:{cluster}", *given)
    assert done.returncode == 254, done.stdout + done.stderr
    assert message.format(name=cluster) in done.stderr and done.stderr.count("\n") == 1


def test_logs_and_a_shell(cluster: str) -> None:
    logs = harness("cluster", "logs", "n1", "--name", cluster, "-n", "5")
    assert logs.returncode == 0 and len(logs.stdout.splitlines()) == 5
    script = "echo $BOOTSTRAP; grep -c 10.64.1.2 /proc/net/fib_trie; exit 3"
    shell = harness("cluster", "shell", "n2", "--name", cluster, "--", "sh", "-c", script)
    assert shell.returncode == 3, shell.stderr
    bootstrap, here = shell.stdout.splitlines()[-2:]
    assert bootstrap.count("10.64.1.") == 3 and int(here) > 0  # in the network of n2
    listed = harness(
        "cluster", "shell", "n1", "--name", cluster, "--",
        "sh", "-c", "kafka-topics.sh --bootstrap-server $BOOTSTRAP --list",
    )  # fmt: skip
    assert listed.returncode == 0, listed.stdout + listed.stderr
    wrong = harness("cluster", "shell", "n9", "--name", cluster, "--", "true")
    assert wrong.returncode == 254 and "the nodes are n1, n2, n3" in wrong.stderr


def test_a_killed_keeper_takes_its_brokers_along_and_is_cleaned_up_after(tmp_path: Path) -> None:
    with persistent_cluster("--nodes", "1", "--min-insync-replicas", "1") as name:
        state = client.read(name)
        assert state is not None
        os.kill(state.pid, signal.SIGKILL)
        assert eventually(lambda: not process_owner.in_use(state.owner), 10)
        inside = str(client.folder(name)).encode()

        def brokers() -> list[str]:
            found = []
            for process in Path("/proc").iterdir():
                with contextlib.suppress(OSError):
                    if process.name.isdigit() and inside in (process / "cmdline").read_bytes():
                        found.append(process.name)
            return found

        assert eventually(lambda: not brokers(), 20), brokers()
        data = tmp_path / "runs" / "20260101T000000-queue" / "cluster" / "nodes"
        data.mkdir(parents=True)
        (data / "n1").write_text("of a run that was killed")
        clean = ("cluster", "clean", "--runs", str(tmp_path / "runs"))
        listed = harness(*clean)
        assert listed.returncode == 0 and name in listed.stdout and str(data.parent) in listed.stdout
        assert client.folder(name).exists() and data.exists()
        assert harness(*clean, "--yes").returncode == 0
        assert not client.folder(name).exists() and not data.exists()
        again = harness(*clean, "--yes", "--json")
        assert [row for row in json.loads(again.stdout) if row["name"] == name] == []
        began = time.monotonic()
        assert harness("cluster", "up", name, "--nodes", "1").returncode == 0  # the name is available again
        assert time.monotonic() - began < 120
