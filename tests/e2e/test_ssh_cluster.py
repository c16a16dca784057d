"""Brokers on hosts that are reached by ssh: the main job, a network partition, user mistakes, leftovers."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.app import invoke
from harness.cluster.ssh import cleanup
from harness.cluster.ssh import hosts as ssh_hosts
from tests.conftest import absent
from tests.e2e.harness_command import LIGHT, run
from tests.e2e.ssh_hosts import NODES, Hosts, lacking, running

pytestmark = [pytest.mark.cluster]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts; checks at the end that nothing is left on them, nor on this machine."""
    if os.geteuid() != 0:
        absent("hosts of namespaces with an sshd each take root")
    if missing := lacking():
        absent(f"{', '.join(missing)}: `make system-deps` installs them")
    folder = tmp_path_factory.mktemp("ssh")
    with running(folder) as made:
        yield made
    wait_for(lambda: not list(Path("/sys/class/net").glob("hssh*")), 10)


def wait_for(true: Callable[[], object], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not so in {timeout_s:g} s"
        time.sleep(0.5)


def on_host(hosts: Hosts, name: str) -> dict[str, str]:
    """What runs currently have on a host: processes, files, packet filters."""
    processes = hosts.inside(name, "ps", "-ewwo", "args", "--no-headers").splitlines()
    ours = [line for line in processes if "kafka" in line]
    files = hosts.inside(name, "find", "/root", "/home", "-mindepth", "1").splitlines()
    rules = hosts.inside(
        name, "iptables" if name == "n2" else "nft", *(["-S"] if name == "n2" else ["list", "ruleset"])
    )
    return {
        "processes": "\n".join(ours),
        "files": "\n".join(path for path in files if "kafka" in path),
        "rules": "\n".join(line for line in rules.splitlines() if "harness" in line),
    }


def left(hosts: Hosts) -> dict[str, dict[str, str]]:
    """Leftovers by host and kind."""
    found = {name: {kind: text for kind, text in on_host(hosts, name).items() if text} for name in NODES}
    return {name: kinds for name, kinds in found.items() if kinds}


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A mark in the environment of every process that the test starts here, and of their children."""
    text = f"HARNESS_TEST_SSH={secrets.token_hex(8)}"
    monkeypatch.setenv(*text.split("="))
    return text


def marked(mark: str) -> list[str]:
    """The command lines of this machine's processes with the mark, except this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.name != str(os.getpid()) and mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text().replace("\0", " "))
    return found


def completed(nemesis: list[dict[str, Any]], f: str) -> list[dict[str, Any]]:
    return [op["value"] for op in nemesis if op["f"] == f and op["extra"]["phase"] == "complete"]


@pytest.mark.long
def test_killing_leaders_on_other_hosts_is_valid(hosts: Hosts, tmp_path: Path, mark: str) -> None:
    ran = run(
        tmp_path, "--cluster", "ssh", "--hosts", str(hosts.file), "--nemesis", "leader-kill", "--acks", "all",
        "--time-limit", "12", "--seed", "7", *LIGHT,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    kills = completed(ran.nemesis, "kill")
    assert any(kill["took_effect"] and kill["new_leaders"] for kill in kills), kills
    assert left(hosts) == {}
    assert marked(mark) == []
    for name in NODES:
        assert (ran.folder / "logs" / name / "server.log").stat().st_size > 1000
    assert "Java" in ran.out  # n3 has none installed
    plan = (ran.folder / "plan.yaml").read_text()
    assert "cluster: ssh" in plan and "nodes: 3" in plan


@pytest.mark.long
def test_an_isolated_leader_on_another_host(hosts: Hosts, tmp_path: Path) -> None:
    ran = run(
        tmp_path, "--cluster", "ssh", "--hosts", str(hosts.file), "--nemesis", "leader-isolate",
        "--acks", "all", "--time-limit", "15", "--seed", "3", *LIGHT,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    (cut, *_) = completed(ran.nemesis, "isolate")
    assert cut["took_effect"] and cut["new_leaders"], cut
    (healed, *_) = completed(ran.nemesis, "heal-network")
    assert sum(healed["dropped_packets"].values()) > 0, healed
    assert "unhealthy" not in healed
    assert left(hosts) == {}


_HOLD = """
import sys, time
from pathlib import Path
from harness.cluster.spec import ClusterSpec
from harness.cluster.ssh import hosts
from harness.cluster.ssh.cluster import SshCluster
from harness.model.capabilities import Network
spec = ClusterSpec(run="killed", work_dir=Path(sys.argv[2]), needed=frozenset({Network}))
cluster = SshCluster(spec, hosts.load(Path(sys.argv[1])), silence_s=20)
cluster.up(print)
cluster.drop("n1", ["n2", "n3"])
cluster.drop("n2", ["n1", "w0"])
cluster.drop("w0", ["n3"])
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_a_killed_harness_leaves_files_alone_and_they_can_be_removed(hosts: Hosts, tmp_path: Path, mark: str) -> None:
    entries = [{**entry, "internal": hosts.internal(str(entry["name"]))} for entry in hosts.entries()]
    file = hosts.write("internal.yaml", entries)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(file), str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as harness:
        try:
            output = _lines_until_held(harness)
            assert "held" in output, output
            found = {name: on_host(hosts, name) for name in NODES}
            assert all("kafka.Kafka" in kinds["processes"] for kinds in found.values()), found
            assert all(kinds["rules"] for kinds in found.values()), found
            nodes = ssh_hosts.load(hosts.file)
            assert cleanup.leftovers(nodes) == []  # its owner is alive
        finally:
            harness.kill()
    wait_for(lambda: not any({"processes", "rules"} & kinds.keys() for kinds in left(hosts).values()), 60)
    assert left(hosts).keys() == set(NODES)
    leftovers = cleanup.leftovers(nodes)
    assert [(one.kind, one.host.name, "killed" in one.run) for one in leftovers] == [("run", n, True) for n in NODES]
    clean = ["cluster", "clean", "--cluster", "ssh", "--hosts", str(hosts.file), "--yes"]
    assert [invoke(clean), invoke(clean)] == [0, 0]
    cleanup.remove(leftovers[0])  # idempotent
    assert cleanup.leftovers(nodes) == []
    assert left(hosts) == {}
    assert marked(mark) == []


def _lines_until_held(process: subprocess.Popen[str]) -> list[str]:
    """Its output, up to "held" or its end."""
    assert process.stdout is not None
    output: list[str] = []
    for line in process.stdout:
        output.append(line.strip())
        if output[-1] == "held":
            break
    return output


# --- user mistakes ---------------------------------------------------------------------------------------


@pytest.fixture
def refused(
    hosts: Hosts, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """The message of a run with these entries; it must be refused before it starts."""
    monkeypatch.setenv("HOME", str(tmp_path))  # no keys, and no known hosts
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    def answered(entries: list[dict[str, object]], *more: str) -> str:
        file = hosts.write("wrong.yaml", entries)
        began = time.monotonic()
        code = invoke(["run", "--cluster", "ssh", "--hosts", str(file), "--runs", str(tmp_path / "runs"), *more])
        out, err = capsys.readouterr()
        assert code == 254, out + err
        assert "Traceback" not in err and time.monotonic() - began < 40
        assert not list((tmp_path / "runs").glob("2*"))
        assert left(hosts) == {}
        return err

    return answered


def changed(hosts: Hosts, number: int, **change: object) -> list[dict[str, object]]:
    """The entries with one value changed; None removes it."""
    entries = hosts.entries()
    entries[number] = {key: value for key, value in {**entries[number], **change}.items() if value is not None}
    return entries


def test_all_problems_of_the_hosts_are_reported_at_once(hosts: Hosts, refused: Callable[..., str]) -> None:
    entries = changed(hosts, 0, address=f"{hosts.network}.99")
    entries[1]["key"] = "other_key"
    (hosts.folder / "swapped").write_text(
        (hosts.folder / "known_hosts")
        .read_text()
        .replace(
            (hosts.folder / "n3" / "host_key.pub").read_text().split()[1],
            (hosts.folder / "other_key.pub").read_text().split()[1],
        )
    )
    entries[2]["known_hosts"] = "swapped"
    message = refused(entries)
    assert f"n1 (root@{hosts.network}.99:22) cannot be reached" in message
    assert f"n2 (tester@{hosts.address('n2')}:22) rejects key {hosts.folder}/other_key" in message
    assert f"n3 (root@{hosts.address('n3')}:22): its host key has changed" in message
    assert "ssh-keygen -f" in message


def test_an_unknown_host_key_is_reported_with_the_command_to_add_it(hosts: Hosts, refused: Callable[..., str]) -> None:
    message = refused(changed(hosts, 0, known_hosts=None))
    assert "its host key is not in ~/.ssh/known_hosts. The host presents ssh-ed25519 SHA256:" in message
    assert f"ssh-keyscan -p 22 {hosts.address('n1')} >> ~/.ssh/known_hosts" in message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"port": 2222}, "cannot be reached (Connection refused)"),
        ({"address": "no-such-host.invalid"}, "the address cannot be resolved"),
        ({"key": None}, "no private key was found"),
        ({"key": "nowhere"}, "nowhere: No such file"),
        ({"key": "user_key.pub"}, "other users can read it"),
        ({"known_hosts": "nowhere"}, "nowhere: No such file"),
        ({"folder": "/proc/harness"}, "/proc/harness is not writable"),
        ({"folder": "/run/small/runs"}, "MB are free for /run/small/runs"),
        ({"internal": "192.0.2.7"}, "192.0.2.7 is not an address of the host itself, which has"),
        ({"kafka_port": 9200}, "port 9202 is in use already"),
    ],
)
def test_a_host_that_will_not_do(
    hosts: Hosts, refused: Callable[..., str], change: dict[str, object], says: str
) -> None:
    small = "mountpoint -q /run/small || { mkdir /run/small && mount -t tmpfs -o size=2m none /run/small; }"
    hosts.inside("n1", "sh", "-c", small)
    with hosts.listening("n1", 9202):
        assert says in refused(changed(hosts, 0, **change))


def test_faults_that_other_hosts_do_not_offer(hosts: Hosts, refused: Callable[..., str]) -> None:
    message = refused(hosts.entries(), "--nemesis", "power-loss:all")
    assert "needs Disks, which brokers on other hosts do not offer" in message
    message = refused(hosts.entries(), "--nemesis", "isolate:client")
    assert "needs OwnAddresses, which brokers on other hosts do not offer" in message
    message = refused(hosts.entries(), "--nemesis", "kill:n4")
    assert "kill has no target 'n4'" in message


def test_packets_cannot_be_dropped_without_root(hosts: Hosts, refused: Callable[..., str]) -> None:
    message = refused(changed(hosts, 1, sudo=False), "--nemesis", "isolate:n2")
    assert "n2 (tester@" in message and "packets cannot be dropped" in message and "sudo: true" in message


def test_more_nodes_than_hosts(hosts: Hosts, refused: Callable[..., str]) -> None:
    assert "lists 3 hosts; omit --nodes" in refused(hosts.entries(), "--nodes", "5")
