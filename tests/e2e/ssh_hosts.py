"""Hosts for ssh, made of namespaces: each has its own network, processes, mounts and sshd.

n1 is an ordinary machine with root login. n2 has a login as an ordinary user with sudo, and has iptables but no
nft. n3 has no Java. They are connected by a bridge in a separate namespace, so that changes of other tests (and
of a Docker engine) to this machine's packet filters do not affect them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

NODES = ("n1", "n2", "n3")
USER = "tester"
_UID = 23456
NEEDED = ("sshd", "ssh-keygen", "sudo", "nft", "iptables", "ip", "unshare", "nsenter")

_HOST = """
set -e
mount -t tmpfs none /root
mount -t tmpfs none /home
mount -t tmpfs none /run
mkdir -p /run/sshd /run/sudo /home/{user}
cp {keys} /run/authorized_keys
chmod 644 /run/authorized_keys
chown {uid} /home/{user}
for name in passwd shadow group sudoers; do mount --bind {folder}/$name /etc/$name; done
{more}
hostname {name}
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip address add {address}/24 dev eth0
ip address add {internal}/24 dev eth0
ip link set eth0 up
exec {sshd} -D -e -f {folder}/sshd_config
"""
_SSHD = """
HostKey {folder}/host_key
AuthorizedKeysFile /run/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
LogLevel ERROR
"""
_MORE = {
    "n1": "",
    "n2": "mount --bind /dev/null $(readlink -f $(command -v nft))",
    "n3": "if [ -d /usr/lib/jvm ]; then mount -t tmpfs none /usr/lib/jvm; fi",
}


def lacking() -> list[str]:
    """Programs that are needed to make the hosts and are not installed."""
    return [name for name in NEEDED if _which(name) is None]


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _do(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


@dataclass
class Hosts:
    """The running hosts: `file` describes them for --hosts."""

    folder: Path
    network: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "hosts.yaml"

    def address(self, name: str) -> str:
        return f"{self.network}.{10 + NODES.index(name)}"

    def internal(self, name: str) -> str:
        """A second address, which the other hosts can reach but this machine cannot."""
        return f"10.98.0.{10 + NODES.index(name)}"

    def inside(self, name: str, *argv: str) -> str:
        """Runs a command on a host, without ssh."""
        (first,) = _children(self.processes[name].pid)
        return _do("nsenter", "-t", str(first), "-n", "-p", "-m", *argv)

    @contextmanager
    def listening(self, name: str, port: int) -> Iterator[None]:
        """Listens on a port of a host during the block."""
        listen = f"import socket; s = socket.create_server(('', {port})); print(flush=True); s.accept()"
        enter = ["nsenter", "-t", str(self.processes[name].pid), "-n"]
        program = subprocess.Popen([*enter, sys.executable, "-c", listen], stdout=subprocess.PIPE)
        try:
            assert program.stdout is not None
            program.stdout.readline()
            yield
        finally:
            program.kill()
            program.wait(10)

    def entries(self) -> list[dict[str, object]]:
        """The entries of the file."""
        common = {"key": "user_key", "known_hosts": "known_hosts"}
        found: list[dict[str, object]] = [
            {"name": name, "address": self.address(name), "user": "root", **common} for name in NODES
        ]
        found[1] |= {"user": USER, "sudo": True}
        return found

    def write(self, name: str, entries: Sequence[dict[str, object]]) -> Path:
        """Writes another file of hosts next to the first."""
        path = self.folder / name
        path.write_text(yaml.safe_dump(list(entries), sort_keys=False))
        return path


@contextmanager
def running(folder: Path) -> Iterator[Hosts]:
    """Three hosts during the block."""
    hosts = Hosts(folder, f"10.97.{os.getpid() % 250}")
    for name in ("user_key", "other_key"):
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    try:
        _start(hosts)
        yield hosts
    finally:
        for process in reversed(hosts.processes.values()):
            process.send_signal(signal.SIGKILL)
            process.wait(10)


def _start(hosts: Hosts) -> None:
    link = f"hssh{os.getpid() % 100000}"
    switch = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    hosts.processes["switch"] = switch
    _until(lambda: _network(switch.pid) != _network(os.getpid()), "a network of its own")
    _in(switch.pid, "ip", "link", "add", "bridge0", "type", "bridge")
    _in(switch.pid, "ip", "link", "set", "bridge0", "up")
    _do("ip", "link", "add", link, "type", "veth", "peer", "name", "outer", "netns", str(switch.pid))
    _in(switch.pid, "ip", "link", "set", "outer", "master", "bridge0", "up")
    _do("ip", "address", "add", f"{hosts.network}.1/24", "dev", link)
    _do("ip", "link", "set", link, "up")
    known = ""
    for name in NODES:
        known += _boot(hosts, name, switch.pid)
    (hosts.folder / "known_hosts").write_text(known)
    hosts.write("hosts.yaml", hosts.entries())
    for name in NODES:
        _until(lambda name=name: _answers(hosts.address(name)), f"sshd of {name}")


def _boot(hosts: Hosts, name: str, switch: int) -> str:
    """Starts a host and returns its line of known_hosts."""
    folder = hosts.folder / name
    folder.mkdir()
    _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host_key"))
    for file, line in (
        ("passwd", f"{USER}:x:{_UID}:{_UID}::/home/{USER}:/bin/sh"),
        ("shadow", f"{USER}:*:19000:0:99999:7:::"),
        ("group", f"{USER}:x:{_UID}:"),
    ):
        shutil.copy(Path("/etc") / file, folder / file)
        with (folder / file).open("a") as out:
            out.write(f"{line}\n")
    (folder / "sudoers").write_text(f"root ALL=(ALL) ALL\n{USER} ALL=(ALL) NOPASSWD: ALL\n")
    (folder / "sudoers").chmod(0o440)
    (folder / "sshd_config").write_text(_SSHD.format(folder=folder))
    script = _HOST.format(
        folder=folder, keys=hosts.folder / "user_key.pub", name=name, address=hosts.address(name),
        internal=hosts.internal(name), user=USER, uid=_UID, sshd=_which("sshd"), more=_MORE[name],
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    hosts.processes[name] = process
    _until(lambda: _network(process.pid) != _network(os.getpid()), "a network of its own")
    port = f"{name}p"
    _in(switch, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
    _in(switch, "ip", "link", "set", port, "master", "bridge0", "up")
    return f"{hosts.address(name)} {(folder / 'host_key.pub').read_text()}"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _in(pid: int, *argv: str) -> None:
    _do("nsenter", "-t", str(pid), "-n", *argv)


def _network(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _answers(address: str) -> bool:
    done = subprocess.run(
        ["ssh-keyscan", "-T", "1", "-t", "ed25519", address], capture_output=True, timeout=10, check=False
    )
    return b"ed25519" in done.stdout


def _until(true: object, what: str) -> None:
    assert callable(true)
    deadline = time.monotonic() + 15
    while not true():
        assert time.monotonic() < deadline, f"no {what} in 15 s"
        time.sleep(0.05)
