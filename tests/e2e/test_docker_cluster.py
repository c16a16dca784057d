"""Brokers in containers, with an engine that the test starts and an image that it builds."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from harness.clients.table import admin_opener
from harness.cluster.docker import cleanup
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.docker.kafka_or_redpanda import make as make_cluster
from harness.cluster.spec import ClusterSpec
from harness.generator import op
from harness.model.capabilities import Disks, Files, Hosts, Logs, Network, OwnAddresses, Processes
from harness.run.roles import ViewRoles
from nemesis import table
from nemesis.schedule.timing import Timing
from tests.e2e.docker_engine import engine, everything
from tests.e2e.harness_command import HARNESS, LIGHT, PLAIN, harness, ops, run
from tests.e2e.test_faults import Clients, Place, _soon
from tests.e2e.waiting import wait_for_load

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def where() -> Iterator[str]:
    """DOCKER_HOST of an engine with an image, for this process and its children."""
    with engine() as host, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", host)
        made = harness("image", "build")
        assert made.returncode == 0, made.stderr
        assert "kafka-log-harness:4.4.0: " in made.stdout
        yield host
        assert everything(host) == []


@pytest.fixture(scope="module")
def place(where: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("docker")
    cluster = make_cluster(ClusterSpec(run="r", kafka_version="4.4.0", work_dir=folder / "cluster"))
    clients = Clients(cluster, folder)  # type: ignore[arg-type]
    roles = ViewRoles(cluster, "r", "r-group", 2, 3)
    try:
        cluster.up(print)
        clients.start()
        assert _soon(lambda: len(roles.leaders()) == 8 and bool(roles.holders("group-coordinator")))
        admin = admin_opener("confluent")({"bootstrap": cluster.bootstrap, "run": "r", "partitions_per_topic": 8})
        yield Place(cluster, roles, clients, admin)  # type: ignore[arg-type]
    finally:
        cluster.collect(str(folder / "logs"))
        cluster.down()
    cluster.down()
    for node in cluster.nodes:
        assert "Kafka Server started" in (folder / "logs" / node / "server.log").read_text()


def test_the_main_job(where: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "--cluster", "docker", "--nemesis", "leader-kill", "--acks", "all",
              "--time-limit", "12", "--seed", "7", *LIGHT, spark_master="local[*]")  # fmt: skip
    kills = [op["value"] for op in ran.nemesis if op["f"] == "kill" and op["extra"]["phase"] == "complete"]
    assert any(kill["took_effect"] and kill["new_leaders"] for kill in kills), kills
    assert ran.code == 0, ran.out + ran.err
    assert (ran.folder / "logs" / "n1" / "server.log").stat().st_size > 0
    assert everything(where) == []


@pytest.mark.repeat(2, 5, 20)
def test_nothing_is_left_of_a_killed_harness(where: str, tmp_path: Path, repetition: int) -> None:
    """The guard process cleans up, or the next command does if the guard was killed too."""
    command = [*HARNESS, "run", "--runs", str(tmp_path), "--cluster", "docker", *LIGHT, *PLAIN]
    command += ["--time-limit", "60", "--nemesis-first", "1", "--nemesis", "leader-isolate,client-crash"]
    before = set(everything(where))
    client = docker.DockerClient(base_url=where, timeout=30)
    alone = repetition % 2 == 0
    with (tmp_path / "out").open("wb") as out:
        victim = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        if repetition % 5 == 0:  # while containers are being created
            assert _soon(lambda: len(set(everything(where)) - before) > 1)
        else:
            folder = wait_for_load(tmp_path, ops_min=60 * (repetition % 5))
            assert any(one["type"] == "invoke" for one in ops(folder))
        (guard,) = _guards(victim.pid)
    finally:
        for pid in [victim.pid] if alone else [*_guards(victim.pid), victim.pid]:
            os.kill(pid, signal.SIGKILL)
        victim.wait()
        left = [] if alone else cleanup.leftovers(client)
        for one in (*left, *left):  # idempotent
            cleanup.remove(one, client)
    assert alone or {one.kind for one in left} == {"container", "network"}, left
    assert _soon(lambda: set(everything(where)) <= before, 30), set(everything(where)) - before
    assert _soon(lambda: not Path(f"/proc/{guard}").exists(), 30)


def _guards(parent: int) -> list[int]:
    """Guard processes that a harness started."""
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += [int(pid) for pid in task.read_text().split()]
    return [pid for pid in found if b"harness.cluster.docker.cleanup" in _command(pid)]


def _command(pid: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_it_can_do_what_it_says(where: str) -> None:
    assert all(issubclass(DockerCluster, can) for can in (Hosts, Logs, Network, Processes))
    assert not any(issubclass(DockerCluster, cannot) for cannot in (Disks, Files, OwnAddresses))
    for fault, need in (("power-loss:all", "Disks"), ("isolate:client", "OwnAddresses")):
        refused = harness("run", "--cluster", "docker", "--nemesis", fault)
        assert refused.returncode == 254
        assert f"{fault} needs {need}, which containers do not offer" in refused.stderr


def _moved(started: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
    return bool(started["new_leaders"])


def _dropped(started: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
    return bool(sum(ended["dropped_packets"].values()) > 0)


def _at_n2(started: Mapping[str, Any], ended: Mapping[str, Any]) -> bool:
    return set(ended["dropped_packets"]) == {"n2"}


@pytest.mark.parametrize(
    ("name", "begin", "end", "shown"),
    [
        ("isolate:leader", "isolate", "heal-network", _dropped),
        ("isolate-in:n2", "isolate-in", "heal-network", _at_n2),
        ("cut-clients:leader", "cut-clients", "heal-network", _dropped),
        ("isolate:clients", "isolate", "heal-network", _dropped),
        ("pause:leader", "pause", "resume", _moved),
        ("restart:leader", "shutdown", "start", _moved),
    ],
)
def test_fault(place: Place, name: str, begin: str, end: str, shown: Any) -> None:
    (fault,) = table.faults([name], Timing())
    assert place.healthy() == ""
    env = place.env(1)
    started = fault.nemesis.invoke(env, op(begin)).value
    try:
        assert started["took_effect"], started
        time.sleep(1)
    finally:
        ended = fault.nemesis.invoke(env, op(end)).value
        fault.nemesis.teardown(env)
    assert "unhealthy" not in ended, ended
    assert shown is None or shown(started, ended), (started, ended)
    assert place.healthy() == ""


def test_a_node_that_is_started_again_is_cut_off_as_it_was(place: Place) -> None:
    assert place.healthy() == ""
    cluster = place.cluster
    cluster.drop("n1", ["n2", "n3"])
    cluster.kill("n1")
    cluster.start("n1")
    try:
        assert _soon(lambda: cluster.dropped("n1") > 0, 60)
        assert cluster.run("n1", ["/bin/sh", "-c", "echo $KAFKA_NODE_ID; exit 3"], 10).code == 3
    finally:
        cluster.heal()
    assert cluster.dropped("n1") == 0
    assert place.healthy() == ""
