"""An external cluster: clients connect, faults hit them, no topics stay, and passwords are stored nowhere."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.cli.app import invoke
from harness.cluster.local import namespaced_cluster
from harness.cluster.spec import ClusterSpec
from harness.plan.plan_file import load
from tests.e2e.harness_command import HARNESS, LIGHT, PLAIN, Ran
from tests.e2e.secured_broker import OTHER_PASSWORD, PASSWORD, Secured, secured

pytestmark = [pytest.mark.cluster, pytest.mark.long]
ONE = ("--replication", "1", "--min-insync-replicas", "1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as started:
        yield started


def config(folder: Path, broker: Secured, user: str = "alice") -> Path:
    """Writes the file of --client-config for a user, whose password is in the environment."""
    path = folder / f"{user}.properties"
    path.write_text(
        "# how to get in\nsecurity.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\n"
        f"sasl.username={user}\nsasl.password=${{PASSWORD_OF_{user.upper()}}}\n"
        f"ssl.ca.location={broker.ca}\n"
    )
    return path


def admin(broker: Secured) -> Any:
    return AdminClient(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(broker.ca),
        }
    )


def topics(client: Any) -> set[str]:
    return {name for name in client.list_topics(timeout=10).topics if not name.startswith("__")}


def effects(ran: Ran) -> list[bool]:
    """Whether each fault took effect."""
    values = [op["value"] for op in ran.nemesis if isinstance(op["value"], dict)]
    return [value["took_effect"] for value in values if "took_effect" in value]


def command_lines() -> bytes:
    lines = []
    for proc in Path("/proc").iterdir():
        if proc.name.isdigit():
            try:
                lines.append((proc / "cmdline").read_bytes())
            except OSError:
                continue
    return b"\n".join(lines)


def test_a_run_gets_in_and_keeps_no_secret(broker: Secured, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    file = config(tmp_path, broker)
    argv = [*HARNESS, "run", "--runs", str(runs), "--quiet", "--bootstrap", broker.bootstrap,
            "--client-config", str(file), *PLAIN, *LIGHT, "--time-limit", "8", "--txn", "--nemesis",
            "kill:client", *ONE]  # fmt: skip
    seen = b""
    with subprocess.Popen(
        argv, env={**os.environ, "PASSWORD_OF_ALICE": PASSWORD}, stdout=-1, stderr=-1, text=True
    ) as process:
        while process.poll() is None:
            seen += command_lines()
            time.sleep(0.5)
        out, err = process.communicate()
    ran = Ran(process.returncode, out, err, (runs / "latest").resolve())
    assert ran.code == 0, out + err
    assert b"harness.run.worker" in seen and PASSWORD.encode() not in seen
    assert PASSWORD not in out + err
    files = [path for path in runs.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
    assert effects(ran) and all(effects(ran))
    plan = load(ran.folder / "plan.yaml")
    assert plan.client_config == str(file) and plan.nodes == 1
    # The brokers' own settings count for the verdict.
    assert plan.broker_config["unclean.leader.election.enable"] == "true"
    assert topics(admin(broker)) == set()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("", ("--nemesis", "kill:leader"), "only clients can be broken there (kill:client, pause:client)"),
        ("", ("--nemesis", "isolate:client"), "a cluster that others operate does not offer"),
        ("", ("--nemesis", "elect:all"), "a cluster that others operate does not offer"),
        ("", ("--replication", "3"), "--replication 3 needs at least 3 nodes, but --nodes is 1"),
        ("", ("--broker-config", "min.insync.replicas=1"), "cannot configure the brokers"),
        ("wrong password", ONE, "refuses the credentials of --client-config"),
        ("no authority", ONE, "no TLS connection"),
        ("no password", ONE, "alice.properties:5: the environment variable PASSWORD_OF_ALICE is not set"),
        ("nobody there", ONE, "no Kafka broker answers"),
        ("may read only", ONE, "no permission to create topics"),
    ],
)
def test_what_is_refused_is_refused_before_the_load(
    broker: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: str,
    options: tuple[str, ...],
    message: str,
) -> None:
    user = "bob" if change == "may read only" else "alice"
    file = config(tmp_path, broker, user)
    if change == "no authority":
        file.write_text(file.read_text().partition("ssl.ca.location")[0])
    monkeypatch.setenv("PASSWORD_OF_BOB", OTHER_PASSWORD)
    if change != "no password":
        monkeypatch.setenv("PASSWORD_OF_ALICE", "wrong-" + PASSWORD if change.startswith("wrong") else PASSWORD)
    at = "127.0.0.1:1" if change == "nobody there" else broker.bootstrap
    began = time.monotonic()
    code = invoke(["run", "--runs", str(tmp_path / "runs"), "--bootstrap", at, "--client-config", str(file), *options])
    took_s = time.monotonic() - began
    out, err = capsys.readouterr()
    assert code == 254 and message in err, out + err
    assert err.count("\n") == 1 and PASSWORD not in out + err
    assert took_s < 30
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_missing_permissions_to_use_topics_are_reported(
    broker: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = admin(broker)
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:bob", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in (
            (ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE),
            (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
            (ResourceType.TOPIC, "*", AclOperation.DELETE),
        )
    ]
    for future in client.create_acls(rules).values():
        future.result(10)
    monkeypatch.setenv("PASSWORD_OF_BOB", OTHER_PASSWORD)
    file = config(tmp_path, broker, "bob")
    code = invoke(
        ["run", "--runs", str(tmp_path / "runs"), "--bootstrap", broker.bootstrap, "--client-config", str(file), *ONE]
    )
    err = capsys.readouterr().err
    assert code == 254, err
    assert "missing permissions: Read on topics, Write on topics, Read on groups; grant them" in err
    assert topics(client) == set()


def test_a_plain_cluster_of_three(tmp_path: Path) -> None:
    cluster = namespaced_cluster.make(ClusterSpec(work_dir=tmp_path / "cluster", outside=True))
    try:
        cluster.up(print)
        bootstrap = cluster.outside_bootstrap
        argv = [*HARNESS, "run", "--runs", str(tmp_path / "runs"), "--quiet", "--bootstrap", bootstrap,
                *PLAIN, *LIGHT, "--time-limit", "8", "--nemesis", "pause:client",
                "--keep-topics"]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        ran = Ran(done.returncode, done.stdout, done.stderr, (tmp_path / "runs" / "latest").resolve())
        assert effects(ran) and all(effects(ran))
        plan = load(ran.folder / "plan.yaml")
        assert plan.nodes == 3
        left = topics(AdminClient({"bootstrap.servers": bootstrap}))
        assert left and all(name.startswith(ran.folder.name) for name in left)
    finally:
        cluster.down()
