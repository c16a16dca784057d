"""The supervisor without Kafka: processes, descriptors, networks, and that nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster.local import namespaces, remote_process, supervisor_client
from harness.cluster.local.supervisor_client import Control
from harness.model.errors_and_exit_codes import ClusterTrouble


@pytest.fixture(params=["loopback", "namespaces"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Control]:
    """A supervisor of each kind; the isolated one has a host "h"."""
    isolated = request.param == "namespaces"
    if isolated:
        request.getfixturevalue("need_namespaces")
    started = Control(isolated, tmp_path / "supervisor.log")
    started.ask("host", {"name": "h", "address": "10.64.9.1"})
    yield started
    started.close()
    assert (tmp_path / "supervisor.log").read_text() == ""


@pytest.fixture
def isolated(need_namespaces: None, tmp_path: Path) -> Iterator[Control]:
    """An isolated supervisor with hosts a, b, c."""
    started = Control(True, tmp_path / "supervisor.log")
    for number, name in enumerate("abc", start=1):
        started.ask("host", {"name": name, "address": f"10.64.9.{number}"})
    yield started
    started.close()


def eventually(what: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(marker: str) -> list[int]:
    """Processes with `marker` in their command line, without zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_child_has_its_descriptors_output_and_code(supervisor: Control, tmp_path: Path) -> None:
    log = tmp_path / "sub" / "child.log"
    read, write = os.pipe()
    script = "echo $GREETING; echo warn >&2; echo three >&3; ls /proc/self/fd | wc -l >&3; exit 7"
    child = remote_process.spawn(supervisor, "h", ["sh", "-c", script], {"GREETING": "hello"}, [write], str(log))
    os.close(write)
    assert child.wait(10) == 7
    assert child.poll() == 7
    with os.fdopen(read) as pipe:
        assert pipe.read().split() == ["three", "5"]  # 0, 1, 2, 3 and that of the listing itself
    assert log.read_text() == "hello\nwarn\n"
    child.signal(signal.SIGTERM)  # it has exited, so nothing happens


def test_many_descriptors_keep_their_order(supervisor: Control, tmp_path: Path) -> None:
    pipes = [os.pipe() for _ in range(20)]
    script = "".join(f"import os; os.write({3 + i}, b'{i}');" for i in range(20))
    argv = [sys.executable, "-c", script]
    child = remote_process.spawn(supervisor, "h", argv, {}, [write for _, write in pipes], str(tmp_path / "log"))
    assert child.wait(10) == 0
    for number, (read, write) in enumerate(pipes):
        os.close(write)
        assert os.read(read, 10) == str(number).encode()
        os.close(read)


def test_a_child_is_stopped_continued_and_killed(supervisor: Control, tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = remote_process.spawn(supervisor, "h", ["sh", "-c", "while :; do echo; sleep 0.02; done"], {}, [], str(log))
    assert child.poll() is None
    child.signal(signal.SIGSTOP)
    time.sleep(0.1)
    size = log.stat().st_size
    time.sleep(0.2)
    assert log.stat().st_size == size
    child.signal(signal.SIGCONT)
    assert eventually(lambda: log.stat().st_size > size)
    child.signal(signal.SIGKILL)
    assert child.wait(10) == -signal.SIGKILL


def test_what_cannot_start_says_why(supervisor: Control, tmp_path: Path) -> None:
    with pytest.raises(ClusterTrouble, match="/no/such: No such file"):
        remote_process.spawn(supervisor, "h", ["/no/such"], {}, [], str(tmp_path / "log"))
    with pytest.raises(ClusterTrouble, match="unknown verb"):
        supervisor.ask("dance", {})


def test_a_command_has_output_and_a_time_limit(supervisor: Control) -> None:
    done = remote_process.run(supervisor, "h", ["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (done.code, done.out, done.err) == (3, "out\n", "err\n")
    with pytest.raises(ClusterTrouble, match="did not end"):
        remote_process.run(supervisor, "h", ["sleep", "60"], 0.2)


def test_closing_kills_also_those_that_left_their_session(supervisor: Control, tmp_path: Path) -> None:
    marker = f"61{os.getpid() % 1000:03d}.5"
    script = f"setsid nohup sleep {marker} & sleep {marker}"
    child = remote_process.spawn(supervisor, "h", ["sh", "-c", script], {}, [], str(tmp_path / "log"))
    assert eventually(lambda: len(alive(f"sleep\0{marker}")) == 2)
    supervisor.close()
    assert alive(f"sleep\0{marker}") == []
    assert child.wait(10) == -signal.SIGKILL
    with pytest.raises(ClusterTrouble, match="taken down"):
        supervisor.ask("heal", {})


HARNESS = """
import os, sys, time
from pathlib import Path
from harness.cluster.local import supervisor_client, remote_process
c = supervisor_client.Control(sys.argv[1] == "namespaces", Path(sys.argv[2]) / "supervisor.log")
c.ask("host", {"name": "h", "address": "10.64.9.1"})
script = "setsid nohup sleep " + sys.argv[3] + " & sleep " + sys.argv[3]
remote_process.spawn(c, "h", ["sh", "-c", script], {}, [], sys.argv[2] + "/log")
print(c.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("mode", ["loopback", "namespaces", "namespaces-stopped"])
def test_kill_9_of_the_harness_leaves_no_process(mode: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """In the last case PID 1 is stopped, so that its guard must notice."""
    if mode != "loopback":
        request.getfixturevalue("need_namespaces")
    marker = f"62{os.getpid() % 1000:03d}.5"
    argv = [sys.executable, "-c", HARNESS, mode.split("-")[0], str(tmp_path), marker]
    env = {**os.environ, "PYTHONPATH": namespaces.python_path()}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as harness:
        assert harness.stdout is not None
        guard = int(harness.stdout.readline())
        assert eventually(lambda: len(alive(f"sleep\0{marker}")) == 2)
        if mode == "namespaces-stopped":
            first = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
            os.kill(int(first[0]), signal.SIGSTOP)
        harness.kill()
    assert eventually(lambda: not alive(f"sleep\0{marker}"))
    assert eventually(lambda: not Path(f"/proc/{guard}").exists())


def test_a_dead_supervisor_is_noticed(need_namespaces: None, tmp_path: Path) -> None:
    supervisor = Control(True, tmp_path / "log")
    supervisor.ask("host", {"name": "h", "address": "10.64.9.1"})
    child = remote_process.spawn(supervisor, "h", ["sleep", "60"], {}, [], str(tmp_path / "log"))
    os.kill(supervisor.pid, signal.SIGKILL)
    assert child.wait(10) == -signal.SIGKILL
    with pytest.raises(ClusterTrouble, match="has ended"):
        supervisor.ask("heal", {})
    supervisor.close()
    supervisor.close()


def test_the_supervisor_is_first_in_its_namespaces(isolated: Control) -> None:
    listing = remote_process.run(isolated, "a", ["sh", "-c", "ls -d /proc/[0-9]* | wc -l; id -u"], 10).out.split()
    assert int(listing[0]) < 10
    assert listing[1] == "0"
    assert Path(f"/proc/{isolated.pid}/ns/net").stat().st_ino != Path("/proc/self/ns/net").stat().st_ino


# --- networks -----------------------------------------------------------------------------------------

ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 7)); print("up", flush=True)
while True:
    data, sender = s.recvfrom(100); s.sendto(data, sender)
"""
ASK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(float(sys.argv[2]))
s.sendto(b"x", (sys.argv[1], 7))
try:
    s.recv(100); print("heard")
except TimeoutError:
    print("silence")
except OSError as error:
    print(error.strerror)
"""


def echo(isolated: Control, host: str, address: str, log: Path) -> None:
    """Answers every packet that reaches `host`."""
    remote_process.spawn(isolated, host, [sys.executable, "-c", ECHO, address], {}, [], str(log))
    assert eventually(lambda: log.exists() and "up" in log.read_text())


def ask(isolated: Control, host: str, address: str, wait_s: float = 5) -> str:
    """Sends a packet. `wait_s` is short if no answer is expected; an answer may take longer on a busy machine."""
    return remote_process.run(isolated, host, [sys.executable, "-c", ASK, address, str(wait_s)], 10).out.strip()


def packets(isolated: Control, host: str) -> int:
    return int(isolated.ask("dropped", {"at": host})[0]["packets"])


def test_a_drop_is_silent_one_way_counted_and_heals(isolated: Control, tmp_path: Path) -> None:
    echo(isolated, "b", "10.64.9.2", tmp_path / "echo-b")
    assert ask(isolated, "a", "10.64.9.2") == "heard"
    isolated.ask("drop", {"at": "b", "sources": ["10.64.9.1"]})
    assert ask(isolated, "a", "10.64.9.2", 0.3) == "silence"
    assert packets(isolated, "b") == 1
    assert packets(isolated, "a") == 0
    assert ask(isolated, "c", "10.64.9.2") == "heard"  # other hosts still are
    isolated.ask("heal", {})
    assert packets(isolated, "b") == 0
    assert ask(isolated, "a", "10.64.9.2") == "heard"
    isolated.ask("heal", {})  # idempotent


def test_the_other_direction_still_works(isolated: Control, tmp_path: Path) -> None:
    """a does not hear b: b still receives what a sends, and only the answers are lost, at a."""
    echo(isolated, "b", "10.64.9.2", tmp_path / "echo-b")
    isolated.ask("drop", {"at": "a", "sources": ["10.64.9.2", "10.64.9.3"]})
    assert ask(isolated, "a", "10.64.9.2", 0.3) == "silence"
    assert eventually(lambda: packets(isolated, "a") == 1)  # once b has answered
    assert packets(isolated, "b") == 0


def test_drops_add_up(isolated: Control, tmp_path: Path) -> None:
    echo(isolated, "c", "10.64.9.3", tmp_path / "echo-c")
    isolated.ask("drop", {"at": "c", "sources": ["10.64.9.1"]})
    isolated.ask("drop", {"at": "c", "sources": ["10.64.9.2"]})
    assert [ask(isolated, host, "10.64.9.3", 0.3) for host in "ab"] == ["silence"] * 2
    assert packets(isolated, "c") == 2


def test_a_socket_of_the_inner_network_is_used_from_outside(isolated: Control, tmp_path: Path) -> None:
    script = "import socket; s = socket.create_server(('10.64.9.2', 80)); s.accept()[0].sendall(b'inner')"
    remote_process.spawn(isolated, "b", [sys.executable, "-c", script], {}, [], str(tmp_path / "log"))

    def answer() -> bytes:
        with remote_process.new_socket(isolated) as connection:
            connection.settimeout(5)
            connection.connect(("10.64.9.2", 80))
            return connection.recv(100)

    def connected() -> bool:
        try:
            return answer() == b"inner"
        except ConnectionRefusedError:
            return False

    assert eventually(connected)


def test_loopback_has_no_network_to_change(tmp_path: Path) -> None:
    supervisor = Control(False, tmp_path / "log")
    with pytest.raises(ClusterTrouble, match="without namespaces"):
        supervisor.ask("drop", {"at": "a", "sources": []})
    supervisor.close()


def test_a_refusal_reaches_the_harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Python without the C library's functions behaves like a system that refuses namespaces."""
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, harness.cluster.local.namespaces as n\n"
        "def refuse(name, *args):\n"
        "    raise OSError(errno.EPERM, 'Operation not permitted')\n"
        "n._call = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{namespaces.python_path()}:{tmp_path}")
    with pytest.raises(supervisor_client.Refused, match="user namespace: Operation not permitted"):
        Control(True, tmp_path / "log")
    allowed, reason = namespaces.available()
    assert not allowed
    assert reason.startswith("user namespace: Operation not permitted")
