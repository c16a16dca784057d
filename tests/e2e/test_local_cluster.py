"""The local cluster with real brokers: workers reach it, faults take effect and heal, and it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.local import namespaced_cluster, namespaces
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.local.namespaced_cluster import LocalCluster
from harness.cluster.spec import ClusterSpec
from harness.model.capabilities import Cluster, Hosts, Logs, Network, Processes
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from tests.conftest import absent
from tests.e2e.harness_command import footprint, left_behind
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def need_namespaces() -> None:
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"namespaces are refused: {reason}")


@pytest.fixture(scope="module")
def cluster(need_namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers for every test in this file; each test leaves them healed and registered."""
    started = LocalCluster(ClusterSpec(work_dir=tmp_path_factory.mktemp("cluster"), outside=True))
    try:
        started.up(print)
        yield started
    finally:
        started.down()


def whole(cluster: LocalCluster | LoopbackCluster) -> bool:
    return all(cluster.seen_by(node) == set(cluster.nodes) for node in cluster.nodes)


# --- a worker -----------------------------------------------------------------------------------------

ROUND_TRIP = """
import sys
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
bootstrap, topic = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": bootstrap})
admin.create_topics([NewTopic(topic, 1, -1)])[topic].result(15)
producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "transactional.id": topic})
producer.init_transactions(15)
producer.begin_transaction()
for value in "abc":
    producer.produce(topic, value)
producer.commit_transaction(15)
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
print("".join(m.value().decode() for m in consumer.consume(3, 20)))
"""


def test_it_can_do_what_it_says(cluster: LocalCluster) -> None:
    for capability in (Cluster, Hosts, Processes, Network, Logs):
        assert isinstance(cluster, capability)


def test_a_worker_on_a_host_of_its_own_reaches_the_brokers(cluster: LocalCluster, tmp_path: Path) -> None:
    log = tmp_path / "w0.log"
    child = cluster.spawn("w0", [sys.executable, "-c", ROUND_TRIP, cluster.bootstrap, "inner"], {}, [], str(log))
    assert child.wait(40) == 0, log.read_text()
    assert log.read_text().splitlines()[-1] == "abc"


def test_programs_outside_reach_them_through_forwarded_ports(cluster: LocalCluster) -> None:
    argv = [sys.executable, "-c", ROUND_TRIP, cluster.outside_bootstrap, "outer"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "abc"


CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 9092), 2).close()"


def reaches(cluster: LocalCluster, host: str, number: int) -> bool:
    """Whether a host can open a connection to node `number`."""
    child = cluster.spawn(host, [sys.executable, "-c", CONNECT, f"10.64.1.{number}"], {}, [], os.devnull)
    return child.wait(20) == 0


def test_an_isolated_node_is_fenced_and_stays_reachable(cluster: LocalCluster) -> None:
    cluster.drop("n1", ["n2", "n3"])
    cluster.drop("n2", ["n1"])
    cluster.drop("n3", ["n1"])
    try:
        assert eventually(lambda: cluster.seen_by("n2") == cluster.seen_by("n3") == {"n2", "n3"})
        assert eventually(lambda: cluster.seen_by("n1") == {"n1", "n2", "n3"})  # without any notification
        assert reaches(cluster, "w0", 1) and reaches(cluster, "w0", 2)
        assert not reaches(cluster, "n2", 1) and not reaches(cluster, "n1", 3)
        assert reaches(cluster, "n2", 3)
        assert all(cluster.dropped(node) > 0 for node in cluster.nodes)
        assert cluster.dropped("w0") == 0
    finally:
        cluster.heal()
    assert [cluster.dropped(node) for node in cluster.nodes] == [0, 0, 0]
    assert reaches(cluster, "n2", 1)
    assert eventually(lambda: whole(cluster))


def test_a_killed_node_is_fenced_and_comes_back(cluster: LocalCluster) -> None:
    cluster.kill("n2")
    assert not cluster.running("n2")
    assert cluster.seen_by("n2") == frozenset()
    cluster.kill("n2")  # idempotent
    assert eventually(lambda: cluster.seen_by("n1") == cluster.seen_by("n3") == {"n1", "n3"})
    cluster.start("n2")
    cluster.start("n2")
    assert cluster.running("n2")
    assert eventually(lambda: whole(cluster))


def test_a_paused_node_is_fenced_and_comes_back(cluster: LocalCluster) -> None:
    cluster.pause("n3")
    assert cluster.running("n3")
    assert eventually(lambda: cluster.seen_by("n1") == cluster.seen_by("n2") == {"n1", "n2"})
    cluster.resume("n3")
    assert eventually(lambda: whole(cluster))


def test_commands_run_where_the_node_runs(cluster: LocalCluster) -> None:
    done = cluster.run("n3", ["cat", "/proc/net/fib_trie"], 10)
    assert done.code == 0 and "10.64.1.3" in done.out
    with pytest.raises(BadInput, match="no node 'n9'"):
        cluster.run("n9", ["true"], 10)


def test_logs_and_configuration_are_collected(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.collect(str(tmp_path))
    for node in cluster.nodes:
        assert "Kafka Server started" in (tmp_path / node / "server.log").read_text()
        assert "process.roles=" in (tmp_path / node / "server.properties").read_text()


# --- other kinds, and errors --------------------------------------------------------------------------


def test_loopback_runs_brokers_without_network_faults(tmp_path: Path) -> None:
    cluster = namespaced_cluster.make(ClusterSpec(nodes=1, work_dir=tmp_path, network="loopback"))
    assert isinstance(cluster, LoopbackCluster) and not isinstance(cluster, Network)
    for capability in (Cluster, Hosts, Processes, Logs):
        assert isinstance(cluster, capability)
    try:
        cluster.up(print)
        argv = [sys.executable, "-c", ROUND_TRIP, cluster.bootstrap, "loop"]
        child = cluster.spawn("w0", argv, {}, [], str(tmp_path / "w0.log"))
        assert child.wait(40) == 0, (tmp_path / "w0.log").read_text()
        cluster.kill("n1")
        cluster.start("n1")
        assert eventually(lambda: whole(cluster))
    finally:
        cluster.down()
    cluster.down()
    assert [path.name for path in tmp_path.iterdir()] == ["w0.log"]


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    cluster = namespaced_cluster.make(
        ClusterSpec(nodes=1, work_dir=tmp_path, network="loopback", broker_config={"num.io.threads": "many"})
    )
    try:
        with pytest.raises(ClusterTrouble, match=r"n1 exited with code 1.*num\.io\.threads"):
            cluster.up(print)
    finally:
        cluster.down()


def test_a_refusal_falls_back_with_a_notice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(namespaces, "available", lambda: (False, "user namespace: not today"))
    notices: list[str] = []
    cluster = namespaced_cluster.make(ClusterSpec(work_dir=tmp_path, say=notices.append))
    assert isinstance(cluster, LoopbackCluster)
    assert "user namespace: not today" in notices[0] and "no network faults" in notices[0]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"nodes": 0}, "--nodes 0"),
        ({"kafka_version": "2.3.1"}, "must be 2.4.0 or newer"),
        ({"kafka_version": "4.0.2", "metadata": "zookeeper"}, "ZooKeeper was removed"),
        ({"kafka_version": "2.8.2", "metadata": "kraft"}, "use --metadata zookeeper"),
        ({"kafka_version": "2.8.2", "controllers": 3}, "--controllers requires KRaft"),
        ({"controllers": 6}, "--controllers 6"),
        ({"broker_config": {"node.id": "1"}}, "--broker-config node.id"),
        ({"network": "cloud"}, "network mode"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(wish: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        namespaced_cluster.make(ClusterSpec(**{"network": "loopback", "work_dir": tmp_path, **wish}))  # type: ignore[arg-type]


# --- kill -9 ------------------------------------------------------------------------------------------

HARNESS = """
import sys, time
from pathlib import Path
from harness.cluster.local import namespaced_cluster
from harness.cluster.spec import ClusterSpec
cluster = namespaced_cluster.make(ClusterSpec(work_dir=Path(sys.argv[1]), network=sys.argv[2]))
cluster.up(lambda text: None)
stay = "while :; do sleep 1; done"
worker = f"setsid nohup sh -c '{stay}' {sys.argv[1]}/left & {stay}"
cluster.spawn("w0", ["sh", "-c", worker, f"{sys.argv[1]}/stayed"], {}, [], "/dev/null")
print("up", flush=True)
time.sleep(600)
"""


def mentioning(marker: str) -> dict[int, set[int]]:
    """pid -> inodes of its namespaces, for every process with `marker` in its command line."""
    found: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    spaces = ("net", "pid", "mnt", "user")
                    found[int(entry.name)] = {(entry / "ns" / space).stat().st_ino for space in spaces}
            except OSError:
                continue
    return found


def in_use() -> set[int]:
    """Inodes of the namespaces of every process that this user may inspect."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            for space in ("net", "pid", "mnt", "user"):
                try:
                    found.add((entry / "ns" / space).stat().st_ino)
                except OSError:
                    continue
    return found


@pytest.mark.parametrize("mode", ["namespaces", "loopback"])
def test_kill_9_leaves_nothing(mode: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """No broker, worker, namespace, bridge, link or mount remains."""
    if mode == "namespaces":
        request.getfixturevalue("need_namespaces")
    before = footprint()
    argv = [sys.executable, "-c", HARNESS, str(tmp_path), mode]
    env = {**os.environ, "PYTHONPATH": namespaces.python_path()}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == "up\n"
            # Three brokers, the worker, and the process that left its session.
            assert eventually(lambda: len(mentioning(f"{tmp_path}/")) >= 5)
            running = mentioning(str(tmp_path))
            inner = set().union(*running.values()) - running[harness.pid]
            assert bool(inner) == (mode == "namespaces")
            assert inner <= in_use()
        finally:
            harness.send_signal(signal.SIGKILL)
    assert eventually(lambda: not mentioning(str(tmp_path)))
    assert eventually(lambda: not inner & in_use())
    left = left_behind(before)
    assert not left.get("links") and not left.get("mounts"), left
