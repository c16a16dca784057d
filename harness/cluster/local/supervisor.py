"""The parent process of brokers and workers. Run as `python -m harness.cluster.local.supervisor`.

    harness ──socket── supervisor (PID 1 of its namespaces) ── brokers, workers, commands
                            └─ one network namespace per host, on a bridge

FD is the descriptor of a socket to the harness. With `--namespaces FD`, a guard process enters new namespaces and forks
the supervisor as PID 1 there. When the supervisor ends, for whatever reason, the kernel ends every process in the
namespaces. Network namespaces, links and rules disappear with the last process. With `--loopback FD` there are no
namespaces, and children are killed one by one. End-of-file on the socket ends the supervisor, so a killed harness
leaves nothing behind.

Verbs, their arguments and their answers (see `harness.cluster.json_messages` for the message format):

    host     {name, address}                 create a network namespace for `name` if it has none
    spawn    {host, argv, env, cwd} + fds    -> {pid}; the descriptors become 1, 2, 3, ... of the child; with
                                             {queues: [host]}, netfilter sockets of these hosts' networks follow
    signal   {pid, signal}                   -> {sent}; signals the child's whole process group
    socket   {host}                          -> a new TCP socket in the host's network ("": the supervisor's)
    drop     {at, sources: [address]}        make host `at` drop packets from these addresses
    heal     {}                              remove all drop rules
    hold     {at, sources: [address], number}  make host `at` send packets from these addresses through queue `number`
    release  {}                              send no more packets through queues
    dropped  {at}                            -> {packets}: how many packets host `at` has dropped
    end      {}                              is answered; then everything ends

The supervisor has a single thread: entering a namespace affects only the calling thread, and fork is safe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.cluster import json_messages
from harness.cluster.json_messages import Closed
from harness.cluster.local import fork_exec, freeze_disk, namespaces

_KILL_TIMEOUT_S = 5.0
_THAW_AGAIN_S = 0.02
_END: Final = "end"


class Supervisor:
    """The loop that answers requests. Keeps track of the running children and of the hosts."""

    def __init__(self, control: socket.socket, isolated: bool) -> None:
        self._control = control
        self._isolated = isolated
        self._running: set[int] = set()
        self._hosts: dict[str, Any] = {}

    def serve(self) -> None:
        """Answers requests and reports children that end, until the socket closes or the request `end` arrives."""
        wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        json_messages.send(self._control, {"event": "ready", "isolated": self._isolated})
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake, select.POLLIN)
        with suppress(Closed):
            while True:
                ready = dict(poll.poll())
                if wake in ready:
                    with suppress(BlockingIOError):
                        os.read(wake, 4096)
                    self._reap()
                if self._control.fileno() in ready and self._request() == _END:
                    return

    def _request(self) -> str:
        """Reads and answers one request; returns its verb."""
        message, fds = json_messages.receive(self._control)
        answer: dict[str, Any] = {"id": message["id"]}
        passed: list[int] = []
        try:
            answer["ok"] = self._do(message, fds, passed)
        except Exception as error:  # report every failure to the caller; the supervisor continues
            answer["error"] = f"{message.get('do')}: {error or type(error).__name__}"
        try:
            json_messages.send(self._control, answer, passed)
        finally:
            for fd in (*fds, *passed):
                os.close(fd)
        return str(message.get("do"))

    def _do(self, message: dict[str, Any], fds: list[int], passed: list[int]) -> dict[str, Any]:
        match message["do"]:
            case "host":
                self._host(message["name"], message["address"])
            case "spawn":
                host = self._hosts[message["host"]] if self._isolated and message["host"] else None
                network = host.network if host else None
                queues = [self._netlink().queue_socket(self._hosts[at]) for at in message.get("queues", ())]
                try:
                    descriptors = [*fds, *queues]
                    pid = fork_exec.spawn(message["argv"], message["env"], message["cwd"], descriptors, network)
                finally:
                    for fd in queues:
                        os.close(fd)
                self._running.add(pid)
                return {"pid": pid}
            case "signal":
                return {"sent": self._signal(message["pid"], message["signal"])}
            case "socket":
                passed.append(self._socket(message["host"]))
            case "drop":
                self._netlink().drop(self._hosts[message["at"]], message["sources"])
            case "heal":
                for host in self._hosts.values():
                    self._netlink().heal(host)
            case "hold":
                host = self._hosts[message["at"]]
                self._netlink().hold(host, message["sources"], message["number"])
            case "release":
                for host in self._hosts.values():
                    self._netlink().release(host)
            case "dropped":
                return {"packets": self._netlink().dropped(self._hosts[message["at"]])}
            case "end":
                self.kill_all()
            case verb:
                raise ValueError(f"unknown verb {verb!r}")
        return {}

    def _socket(self, host: str) -> int:
        """Returns the descriptor of a new socket, which belongs to the network of `host`, whichever process uses it."""
        with contextlib.ExitStack() as stack:
            if host and self._isolated:
                stack.enter_context(namespaces.inside(self._hosts[host].network))
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()

    def _host(self, name: str, address: str) -> None:
        if self._isolated and name not in self._hosts:
            self._hosts[name] = self._netlink().make_host(name, address, len(self._hosts) + 1)

    def _netlink(self) -> Any:
        """The module `netlink`. It is imported only when needed: never without namespaces."""
        if not self._isolated:
            raise ValueError("without namespaces there is no network to change")
        from harness.cluster.local import netlink

        return netlink

    def _signal(self, pid: int, number: int) -> bool:
        """Sends a signal to the process group of a child; returns whether it was sent.

        Sends nothing if `pid` is not a running child, because an unrelated process may have this pid by now.
        """
        if pid not in self._running:
            return False
        with suppress(ProcessLookupError):
            os.killpg(pid, number)
            for group in _other_groups(pid):
                with suppress(ProcessLookupError):
                    os.killpg(group, number)
            return True
        return False

    def _reap(self) -> None:
        """Reaps all processes that have ended, including orphans. Reports those that are children of this process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._running:
                self._running.discard(pid)
                for group in _other_groups(pid):
                    with suppress(ProcessLookupError):
                        os.killpg(group, signal.SIGKILL)
                code = os.waitstatus_to_exitcode(status)
                json_messages.send(self._control, {"event": "exit", "pid": pid, "code": code})

    def kill_all(self) -> None:
        """Kills every descendant, and waits until none remains, at most `_KILL_TIMEOUT_S`."""
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while time.monotonic() < deadline:
            # For PID 1, kill(-1) signals every process in its namespace but itself.
            for pid in [-1] if self._isolated else _descendants():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.01)


def _other_groups(session: int) -> set[int]:
    """Returns the process groups of a worker's client programs: all groups in its session except its own.

    session  the worker's session id; its pid and its process group are the same number
    """
    groups = set()
    for folder in os.scandir("/proc"):
        if folder.name.isdecimal():
            with suppress(OSError, ValueError):
                # After the command's name in parentheses: state, parent, process group, session.
                fields = Path(folder.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and int(fields[2]) != session:
                    groups.add(int(fields[2]))
    return groups


def _descendants() -> list[int]:
    """Returns the pids of all descendants of this process, according to the parents in /proc."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError), open(f"/proc/{entry.name}/stat", "rb") as stat:  # noqa: PTH123  faster than Path.open
                parents.setdefault(int(stat.read().rpartition(b")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def run_isolated(control: socket.socket) -> int:
    """Enters new namespaces, forks PID 1 there, and guards it; returns the exit code."""
    try:
        namespaces.enter()
    except namespaces.Refused as error:
        json_messages.send(control, {"event": "refused", "why": f"{error}{namespaces.hint()}"})
        return 1
    mountinfo = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)  # of the new namespace
    pid = os.fork()
    if pid == 0:
        return _first(control)
    return _guard(control, pid, mountinfo)


def _first(control: socket.socket) -> int:
    """Runs the supervisor as PID 1 of the namespaces; returns the exit code."""
    namespaces.die_with_parent()
    try:
        namespaces.mount_proc()
        from harness.cluster.local import netlink

        netlink.make_bridge()
    except Exception as error:  # whatever a kernel without bridges answers: the harness falls back to loopback
        json_messages.send(control, {"event": "refused", "why": f"bridge: {error or type(error).__name__}"})
        return 1
    Supervisor(control, isolated=True).serve()
    return 0


def _guard(control: socket.socket, pid: int, mountinfo: int) -> int:
    """Waits until PID 1 or the harness ends, then kills PID 1. Returns PID 1's exit code.

    control    the socket to the harness
    mountinfo  descriptor of the namespace's /proc/self/mountinfo

    Killing is necessary because PID 1 does not end by itself while it is stopped (SIGSTOP). Children of PID 1 cannot
    die while they wait for a frozen disk, so the guard thaws the disks.
    """
    before = freeze_disk.mounted(mountinfo)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(control, 0)  # only hang-up, which is always reported; PID 1 reads the data
    poll.poll()
    os.kill(pid, signal.SIGKILL)
    while True:
        freeze_disk.thaw_all(freeze_disk.mounted(mountinfo) - before)
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_THAW_AGAIN_S)


def run_loopback(control: socket.socket) -> int:
    """Serves without namespaces. At the end, kills every descendant, including those whose parent has ended."""
    namespaces.adopt_orphans()
    supervisor = Supervisor(control, isolated=False)
    signal.signal(signal.SIGTERM, lambda *_: control.shutdown(socket.SHUT_RDWR))
    try:
        supervisor.serve()
    finally:
        supervisor.kill_all()
    return 0


def probe() -> int:
    """Tries to create namespaces, a bridge, a link and a packet filter; returns the exit code.

    All of them disappear when this process ends.
    """
    try:
        namespaces.enter()
    except namespaces.Refused as error:
        print(error, file=sys.stderr)
        return 1
    from harness.cluster.local import netlink

    for what, act in (
        ("bridge", netlink.make_bridge),
        (
            "links and packet filter",
            lambda: netlink.drop(netlink.make_host("h", "10.64.0.2", 1), ["10.64.0.3"]),
        ),
    ):
        try:
            act()
        except Exception as error:  # whatever the kernel answers is reported
            print(f"{what}: {error or type(error).__name__}", file=sys.stderr)
            return 1
    return 0


def main(argv: list[str]) -> int:
    """Runs the supervisor with --namespaces FD or --loopback FD, or with --probe tries whether namespaces work."""
    if argv == ["--probe"]:
        return probe()
    mode, number = argv
    control = socket.socket(fileno=int(number))
    os.set_inheritable(control.fileno(), False)
    return {"--namespaces": run_isolated, "--loopback": run_loopback}[mode](control)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
