"""The Docker cluster without an engine: requests to an engine, and messages if there is none."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from harness.cluster import table
from harness.cluster.distribution import broker_config
from harness.cluster.docker import (
    build_own_image,
    cleanup,
    cluster,
    compose,
    engine_and_images,
    network_and_containers,
    packet_filters,
    redpanda,
    redpanda_cluster,
)
from harness.cluster.docker.compose import Port
from harness.cluster.spec import ClusterSpec
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing
from harness.run.roles import Coordinated, ViewRoles

COMPOSE = """
x-common: &common
  A: ${A:-one}
services:
  n1:
    image: img:${TAG-latest}
    ports: ["127.0.0.1:${PORT:?a port}:9094"]
    environment:
      <<: *common
      B: $$x ${NONE} ${EMPTY:-${INNER:-no}
"""


# --- docker-compose.yml -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A ${A} $$A", "1 1 $A"),
        ("${A:-2} ${E:-2} ${E-2} ${N:-2} ${N-2}", "1 2  2 2"),
        ("${A:?no} ${N} x$", "1  x$"),
    ],
)
def test_variables_are_resolved_as_compose_does(text: str, expected: str) -> None:
    assert compose.interpolate(text, {"A": "1", "E": ""}, "f") == expected


def test_services_are_read() -> None:
    (n1,) = compose.parse(COMPOSE.replace("${INNER:-no}", "no}"), {"PORT": "7", "EMPTY": ""}, "f")
    assert (n1.name, n1.hostname, n1.image) == ("n1", "n1", "img:latest")
    assert n1.ports == (Port("127.0.0.1", 7, 9094),)
    assert n1.environment == {"A": "one", "B": "$x  no"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: [", "f:1:12: not YAML"),
        ("a: 1", "f: no services"),
        ("services: {n1: {hostname: x}}", "service n1: no image"),
        ("services: {n1: {image: x, privileged: true}}", "service n1: unsupported fields: privileged"),
        ("services: {n1: {image: x, ports: ['9092']}}", "port 9092: write it as ADDRESS:PORT:PORT"),
        ("services: {n1: {image: x, environment: [A=1]}}", "environment: write it as a mapping"),
        ("services: {n1: {image: '${X:?set it}'}}", "X must be set: set it"),
    ],
)
def test_mistakes_are_explained(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("[", r"\[").replace("?", r"\?")):
        compose.parse(text, {}, "f")


def test_a_missing_compose_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="run from a checkout"):
        compose.load({}, tmp_path / "docker-compose.yml")


def test_our_compose_file_has_the_settings_of_the_local_cluster() -> None:
    services = compose.load({})
    for service in services:
        for key, value in broker_config.defaults(len(services)).items():
            assert service.environment[network_and_containers.variable(key)] == value, key


def test_our_compose_file_works_unchanged() -> None:
    services = compose.load({})
    assert [service.name for service in services] == ["n1", "n2", "n3"]
    assert {service.image for service in services} == {"apache/kafka:4.4.0"}
    assert len({port.outer for service in services for port in service.ports}) == 3


def spec(work_dir: Path, config: dict[str, str]) -> ClusterSpec:
    return ClusterSpec(run="r", work_dir=work_dir, broker_config=config)


def test_a_run_has_ports_and_settings_of_its_own(tmp_path: Path) -> None:
    one, two = (
        network_and_containers.kafka(spec(tmp_path, {"log.retention.ms": "5", "min.insync.replicas": "1"}), "i:1")
        for _ in range(2)
    )
    assert one.run != two.run
    for service in one.services:
        assert service.environment["KAFKA_LOG_RETENTION_MS"] == "5"
        assert service.environment["KAFKA_MIN_INSYNC_REPLICAS"] == "1"
        outer = one.port(service.name, network_and_containers.KAFKA_PORT)
        assert service.environment["KAFKA_ADVERTISED_LISTENERS"].endswith(f"OUTSIDE://127.0.0.1:{outer}")
    ids = {service.environment["CLUSTER_ID"] for made in (one, two) for service in made.services}
    assert len(ids) == 2


def test_settings_that_cannot_be_given_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="this setting is reserved for the harness"):
        network_and_containers.kafka(spec(tmp_path, {"listeners": "x"}), "i:1")
    with pytest.raises(BadInput, match="lower case"):
        network_and_containers.kafka(spec(tmp_path, {"Retention": "x"}), "i:1")


# --- the image's entry point --------------------------------------------------------------------------


def test_the_entry_turns_variables_into_properties(tmp_path: Path) -> None:
    """The script itself, with a Java that prints its arguments."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "libs").mkdir()
    (tmp_path / "config").mkdir()
    for name in ("b.jar", "a.jar"):
        (tmp_path / "libs" / name).touch()
    java = tmp_path / "bin" / "java"
    java.write_text('#!/bin/sh\necho "$@"\n')
    java.chmod(0o755)
    script = build_own_image.ENTRY.read_text().replace("/opt/java", str(tmp_path)).replace("/opt/kafka", str(tmp_path))
    settings = {"log.retention.ms": "5", "a_b.c-d": "x y=$z", "node.id": "1"}
    env = {network_and_containers.variable(key): value for key, value in settings.items()}
    env |= {
        "CLUSTER_ID": "abc",
        "KAFKA_HEAP_OPTS": "-Xmx1m",
        "KAFKA_OPTS": "-Dq",
        "OTHER": "no\nKAFKA_X=1",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    argv = ["sh", "-c", script]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=20, check=True)
    lines = (tmp_path / "config" / "server.properties").read_text().splitlines()
    assert sorted(lines) == sorted(
        [*(f"{key}={value}" for key, value in settings.items()), f"log.dirs={tmp_path / 'data'}"]
    )
    formatted, started = done.stdout.splitlines()
    assert "kafka.tools.StorageTool format --ignore-formatted -t abc" in formatted
    assert started.split()[0] == "-Xmx1m" and "-Dq" in started and started.split()[-2] == "kafka.Kafka"
    assert f"-cp {tmp_path}/libs/a.jar:{tmp_path}/libs/b.jar " in started
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    again = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=20, check=True)
    assert "StorageTool" not in again.stdout


def test_jars_of_ones_own_need_a_broker(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        build_own_image.own_jars(tmp_path / "none")
    (tmp_path / "kafka-clients-4.2.0.jar").touch()
    with pytest.raises(BadInput, match=r"no kafka_2\.13-VERSION\.jar among its 1 jars"):
        build_own_image.own_jars(tmp_path)
    (tmp_path / "kafka_2.13-4.2.0-SNAPSHOT.jar").touch()
    files, what = build_own_image.own_jars(tmp_path)
    assert len(files) == 2 and what == f"Kafka 4.2.0-SNAPSHOT from {tmp_path}"


def test_the_libraries_of_a_program_are_found() -> None:
    found = build_own_image.shared_libraries([Path(sys.executable).resolve()], Path("/nowhere"))
    assert any("libc." in path for path in found), found
    assert all(Path(path).exists() for path in found)


def test_an_image_contains_a_runtime_a_shell_and_the_jars(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "legal").mkdir()
    (home / "legal" / "x").touch()
    (home / "bin" / "java").write_bytes(Path(sys.executable).resolve().read_bytes())
    (home / "dead").symlink_to(tmp_path / "gone")
    jar = tmp_path / "kafka.jar"
    jar.write_text("jar")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        build_own_image._fill(tar, home, [jar])
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        names = set(tar.getnames())
        assert {"bin/sh", "opt/java/bin/java", "opt/kafka/libs/kafka.jar", "etc/kafka/docker/run"} <= names
        assert not names & {"opt/java/legal/x", "opt/java/dead"}
        assert tar.getmember("etc/kafka/docker/run").mode & 0o111
        assert tar.getmember("tmp").mode == 0o1777
        assert any(name.rpartition("/")[2].startswith("libc.") for name in names)


# --- Redpanda -----------------------------------------------------------------------------------------


def test_redpanda_gets_its_identity() -> None:
    ports = {"n1": (1, 2), "n2": (3, 4), "n3": (5, 6)}
    made = redpanda.services(("n1", "n2", "n3"), "rp:1", ports, {"log_segment_size": "1048576"})
    second = made[1]
    assert second.image == "rp:1"
    assert second.ports == (Port("127.0.0.1", 3, 9094), Port("127.0.0.1", 4, 9644))
    assert second.command[:2] == ("redpanda", "start")
    assert "--node-id=2" in second.command and "--seeds=n1:33145" in second.command
    assert "--advertise-kafka-addr=inside://n2:9092,outside://127.0.0.1:3" in second.command
    assert "--set=redpanda.log_segment_size=1048576" in second.command
    assert "--set=redpanda.auto_create_topics_enabled=false" in second.command


@pytest.mark.parametrize("key", ["node_id", "log.segment.bytes"])
def test_properties_that_redpanda_cannot_be_given_are_refused(key: str) -> None:
    with pytest.raises(BadInput, match=f"--broker-config {key}"):
        redpanda.services(("n1",), "rp:1", {"n1": (1, 2)}, {key: "1"})


def test_redpanda_reports_coordinators() -> None:
    assert redpanda.controller(b'{"is_healthy": true, "controller_id": 3}') == 3
    for answer in (b'{"controller_id": -1}', b"{}", b"[]", b"nonsense"):
        assert redpanda.controller(answer) is None
    found = struct.pack(">iihhih", 1, 0, 0, -1, 2, 2) + b"n2" + struct.pack(">i", 9092)
    assert redpanda.coordinator(found) == 2
    refused = struct.pack(">iihh", 1, 0, 15, 2) + b"no" + struct.pack(">ihi", -1, 0, -1)
    assert redpanda.coordinator(refused) is None
    with pytest.raises(ValueError, match="truncated"):
        redpanda.coordinator(found[:10])
    request = redpanda.coordinator_request("txn-coordinator", "r-1")
    assert request == struct.pack(">hhih", 10, 1, 1, 7) + b"harness" + b"\0\3r-1\1"


def test_roles_ask_redpanda_rather_than_its_topics() -> None:
    class Cluster:
        nodes = ("n1", "n2", "n3")

        def views(self) -> list[Any]:
            raise AssertionError("its topics say nothing of coordinators")

        def controller(self) -> int | None:
            return 1

        def coordinator(self, role: str, name: str) -> int | None:
            return {"r-0": 2, "r-1": None, "group": 3}[name]

    assert issubclass(redpanda_cluster.RedpandaCluster, Coordinated)
    assert not issubclass(cluster.DockerCluster, Coordinated)
    roles = ViewRoles(Cluster(), "r", "group", 2, 3)
    assert list(roles.holders("txn-coordinator")) == ["n2"]
    assert list(roles.holders("group-coordinator")) == ["n3"]
    assert list(roles.holders("controller")) == ["n1"]


# --- the engine ---------------------------------------------------------------------------------------


class Engine:
    """An engine that has some images, and information about its machine."""

    def __init__(self, *images: str, **info: Any) -> None:
        self._images, self._info = images, info
        self.images = SimpleNamespace(get=self._get)

    def _get(self, name: str) -> str:
        if name not in self._images:
            raise docker.errors.ImageNotFound("no such image")
        return name

    def info(self) -> dict[str, Any]:
        return self._info


@pytest.mark.parametrize("start", ["kafka", "redpanda", "image"])
def test_a_missing_engine_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(Missing, match=f"no Docker engine answers at unix://{tmp_path}/none .No such file") as raised:
        if start == "kafka":
            table.make("docker", ClusterSpec(run="r", work_dir=tmp_path))
        elif start == "redpanda":
            table.make("docker", ClusterSpec(run="r", work_dir=tmp_path, system="redpanda"))
        else:
            cleanup.leftovers()
    assert "make system-deps" in str(raised.value) and "\n" not in str(raised.value)


def test_a_foreign_server_at_the_socket_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "nonsense://x")
    with pytest.raises(Missing, match="no Docker engine answers at nonsense://x"):
        engine_and_images.connect()


def test_the_image_is_chosen_of_those_that_are_there() -> None:
    official, own = "apache/kafka:4.1.1", "kafka-log-harness:4.1.1"
    assert engine_and_images.image(Engine(official, own), "", "4.1.1") == official
    assert engine_and_images.image(Engine(own), "", "4.1.1") == own
    assert engine_and_images.image(Engine(own, "mine:1"), "mine:1", "4.1.1") == "mine:1"
    with pytest.raises(Missing, match=f"no image {official} or {own}: .*harness image build --kafka-version 4.1.1"):
        engine_and_images.image(Engine(), "", "4.1.1")
    with pytest.raises(Missing, match=r"no image mine:1: .*--tag mine:1"):
        engine_and_images.image(Engine(own), "mine:1", "4.1.1")
    with pytest.raises(Missing, match="docker pull rp:1"):
        engine_and_images.fetched(Engine(own), "rp:1")


def test_too_little_disk_space_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    engine_and_images.check_room(Engine(MemTotal=8 << 30, DockerRootDir="/nowhere"), 3)
    with pytest.raises(Missing, match="1024 MiB of memory, and 3 brokers need 1536 MiB"):
        engine_and_images.check_room(Engine(MemTotal=1 << 30), 3)
    full = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(Missing, match=f"only 0 MiB are free in {tmp_path}"):
        engine_and_images.check_room(Engine(MemTotal=8 << 30, DockerRootDir=str(tmp_path)), 3)


def test_the_librarys_errors_become_ours() -> None:
    with (
        pytest.raises(ClusterTrouble, match="starting n1: no such container"),
        engine_and_images.trouble("starting n1"),
    ):
        raise docker.errors.APIError("500", explanation="no such container")


def test_network_faults_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    assert "another machine" in packet_filters.why_not()
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root" in packet_filters.why_not()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert packet_filters.why_not() == ""


def test_what_a_living_process_owns_is_no_leftover() -> None:
    ours = cleanup.labels("r")
    assert cleanup.in_use(ours[cleanup.OWNER])
    boot, pid, started = ours[cleanup.OWNER].split("/")
    for other in (f"{boot}/{pid}/{int(started) + 1}", f"other/{pid}/{started}", f"{boot}/0/1", "", "x"):
        assert not cleanup.in_use(other)
