"""The worker processes of a run, as the harness sees them: starts them, exchanges ops, replaces and signals them.

A worker serves one or more slots. It is replaced when it dies (for example killed by the nemesis) or when an op exceeds
its deadline. A worker that hangs is left running for a while after its replacement, because it may be paused: when it
resumes, it must be fenced. The output of a replaced worker is ignored.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from harness.model.capabilities import Child, Hosts
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.run.worker import RECEIVE_BYTES

READY_TIMEOUT_S: Final = 30.0
ZOMBIES_MAX: Final = 64


@dataclass(slots=True)
class Member:
    """One worker process.

    name   name of the worker
    slots  the slots that it serves
    rest   the beginning of a line that has not arrived completely
    out    lines that have not been sent yet
    ready  whether the worker has started
    """

    name: str
    slots: tuple[int, ...]
    child: Child
    sock: socket.socket
    rest: bytes = b""
    out: list[bytes] = field(default_factory=list)
    ready: bool = False


def launch(
    hosts: Hosts, name: str, setup: Mapping[str, Any], log: Path, env: Mapping[str, str]
) -> tuple[Child, socket.socket]:
    """Starts a worker process on the host `name`, and sends the setup to it. Returns (process, socket)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    try:
        child = hosts.spawn(name, [sys.executable, "-m", "harness.run.worker"], dict(env), [theirs.fileno()], str(log))
    finally:
        theirs.close()
    ours.sendall(orjson.dumps(setup, option=orjson.OPT_APPEND_NEWLINE))
    return child, ours


class Crew:
    """All workers of a run that execute ops. Only the interpreter's thread uses it, except for `names`, `signal` and
    `ask`, which belong to the nemesis.
    """

    def __init__(
        self,
        hosts: Hosts,
        client: Mapping[str, Any],
        concurrency: int,
        clients_per_process: int,
        logs: Path,
        env: Mapping[str, str],
        hit: Sequence[int] | None = None,
    ) -> None:
        """`hit`: the slots whose workers may be hit by faults; None: all slots."""
        self._hosts, self._client, self._logs, self._env, self._hit = hosts, client, logs, env, hit
        groups = [
            tuple(range(first, min(first + clients_per_process, concurrency)))
            for first in range(0, concurrency, clients_per_process)
        ]
        self._groups = groups
        self.selector = selectors.DefaultSelector()
        self._members: list[Member] = []
        self._waiting: list[Member] = []  # workers with unsent lines
        self._replaced: list[tuple[float, Member]] = []  # (time, worker), possibly still running
        self._answers: dict[str, Mapping[str, Any] | None] = {}  # worker -> its last answer, see `ask`
        self._answered = threading.Condition()
        self._of_slot = {slot: n for n, group in enumerate(groups) for slot in group}

    def start(self) -> None:
        """Starts every worker, and waits until all workers are ready. Raises ClusterTrouble."""
        self._members = [self._launch(n) for n in range(len(self._groups))]
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not all(member.ready for member in self._members):
            if time.monotonic() > deadline:
                slow = ", ".join(member.name for member in self._members if not member.ready)
                raise ClusterTrouble(f"workers {slow} did not start within {READY_TIMEOUT_S:.0f} s; see {self._logs}")
            for member, line in self.receive(0.1):
                if line is None:
                    raise ClusterTrouble(f"worker {member.name} exited while starting; see {self._logs}")

    def _launch(self, n: int) -> Member:
        group = self._groups[n]
        setup = {"do": "setup", "role": "ops", "client": dict(self._client), "single": len(group) == 1}
        name = f"w{n}"
        child, sock = launch(self._hosts, name, setup, self._logs / f"{name}.log", self._env)
        member = Member(name, group, child, sock)
        self.selector.register(sock, selectors.EVENT_READ, member)
        return member

    # --- the interpreter's side ---

    def send(self, slot: int, line: bytes) -> None:
        """Queues an op line for the worker of a slot; `flush` sends it."""
        member = self._members[self._of_slot[slot]]
        if not member.out:
            self._waiting.append(member)
        member.out.append(line)

    def flush(self) -> None:
        """Sends the queued lines. Ignores workers that have exited, because `receive` reports them."""
        for member in self._waiting:
            data = b"".join(member.out)
            member.out.clear()
            with contextlib.suppress(OSError):
                member.sock.sendall(data)
        self._waiting.clear()

    def receive(self, timeout_s: float) -> Iterator[tuple[Member, bytes | None]]:
        """Yields (worker, line) for the completions that arrive within `timeout_s`.

        The line is None if the worker has exited.
        """
        for key, _ in self.selector.select(timeout_s):
            member = key.data
            if not isinstance(member, Member):
                continue  # the interpreter's own wake-up pipe
            try:
                chunk = member.sock.recv(RECEIVE_BYTES)
            except ConnectionError:
                chunk = b""
            if not chunk:
                self._forget(member)
                if member in self._members:
                    yield member, None
                continue
            *whole, member.rest = (member.rest + chunk).split(b"\n")
            for line in whole:
                if line.startswith(b'{"did":"instance"'):
                    with self._answered:
                        self._answers[member.name] = orjson.loads(line)["value"]
                        self._answered.notify_all()
                elif line.startswith(b'{"did"'):
                    member.ready = True
                elif member in self._members:
                    yield member, line

    def replace(self, member: Member) -> None:
        """Starts a new worker for the slots of a worker that has exited or hangs."""
        n = self._members.index(member)
        if member.child.poll() is None:
            self._replaced.append((time.monotonic(), member))
            with contextlib.suppress(OSError):
                member.sock.sendall(b'{"do":"exit"}\n')
        self._members[n] = self._launch(n)
        for _, zombie in self._replaced[: max(0, len(self._replaced) - ZOMBIES_MAX)]:
            zombie.child.signal(signal.SIGKILL)
        self._replaced = self._replaced[-ZOMBIES_MAX:]

    def drop(self, member: Member, process: int) -> None:
        """Makes a worker with several slots abandon one slot's client, because it hangs. `process` names the client."""
        with contextlib.suppress(OSError):
            member.sock.sendall(orjson.dumps({"do": "drop", "process": process}) + b"\n")

    def member_of(self, slot: int) -> Member:
        return self._members[self._of_slot[slot]]

    def _forget(self, member: Member) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(member.sock)
        member.sock.close()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Asks all workers to exit, then kills those that still run. Safe to repeat."""
        everyone = [*self._members, *(member for _, member in self._replaced)]
        for member in everyone:
            with contextlib.suppress(OSError):
                member.sock.sendall(b'{"do":"exit"}\n')
        deadline = time.monotonic() + timeout_s
        for member in everyone:
            if member.child.wait(max(0.0, deadline - time.monotonic())) is None:
                member.child.signal(signal.SIGCONT)
                member.child.signal(signal.SIGKILL)
            self._forget(member)
        self._members, self._replaced = [], []

    # --- the nemesis's side (`harness.model.fault_and_generator_protocols.Workers`) ---

    def names(self) -> tuple[str, ...]:
        hit = self._hit
        return tuple(member.name for member in self._members if hit is None or any(n in hit for n in member.slots))

    def signal(self, name: str, number: int) -> bool:
        """Sends a signal to the worker with this name. Returns whether the worker was running.

        SIGCONT is also sent to replaced workers of this name, because a paused worker can only be fenced if it resumes.
        """
        replaced = [member for _, member in self._replaced] if number == signal.SIGCONT else []
        found = [member for member in (*self._members, *replaced) if member.name == name]
        running = [member for member in found if member.child.poll() is None]
        for member in running:
            member.child.signal(number)
        return bool(running)

    def ask(self, name: str, what: str, by: str, within_s: float) -> Mapping[str, Any] | None:
        """See `harness.model.fault_and_generator_protocols.Instances`. `receive` hands the answer over."""
        members = [member for member in self._members if member.name == name]
        order = orjson.dumps({"do": "instance", "what": what, "by": by}, option=orjson.OPT_APPEND_NEWLINE)
        with self._answered:
            self._answers.pop(name, None)
            try:
                for member in members:
                    member.sock.sendall(order)
            except OSError:
                return None
            self._answered.wait_for(lambda: name in self._answers, within_s)
            return self._answers.pop(name, None)


class AdminLink:
    """Calls a worker that has the admin or the log role (see `harness.run.worker`), one call at a time. Thread-safe.

    Each call has a deadline.
    """

    def __init__(
        self,
        hosts: Hosts,
        client: Mapping[str, Any],
        logs: Path,
        env: Mapping[str, str],
        role: str = "admin",
    ) -> None:
        setup = {"do": "setup", "role": role, "client": dict(client)}
        self._child, self._sock = launch(hosts, role, setup, logs / f"{role}.log", env)
        self._role, self._lock, self._rest, self._next = role, threading.Lock(), b"", 0

    def call(self, name: str, within_s: float = 10.0, /, **args: Any) -> Any:
        """Makes a call of the role's method `name`, and returns the value.

        Raises ClusterTrouble if the call fails or times out.
        """
        with self._lock:
            self._next += 1
            number = self._next
            order = {"do": "call", "id": number, "name": name, "args": args}
            deadline = time.monotonic() + within_s
            try:
                self._sock.sendall(orjson.dumps(order, option=orjson.OPT_APPEND_NEWLINE))
                while True:
                    answer = self._answer(deadline)
                    if answer.get("id") == number:
                        break
            except OSError as error:
                text = f"{self._role} call {name}: no response in {within_s:.0f} s ({error})"
                raise ClusterTrouble(text) from None
        if "error" in answer:
            raise ClusterTrouble(f"{self._role} call {name}: {answer['error']}")
        return answer["value"]

    def _answer(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._sock.settimeout(max(0.01, deadline - time.monotonic()))
            chunk = self._sock.recv(RECEIVE_BYTES)
            if not chunk:
                raise ConnectionError(f"the {self._role} worker exited")
            self._rest += chunk
        line, self._rest = self._rest.split(b"\n", 1)
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.sendall(b'{"do":"exit"}\n')
        if self._child.wait(1.0) is None:
            self._child.signal(signal.SIGKILL)
        self._sock.close()
