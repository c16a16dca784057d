"""Processes, commands and sockets that a supervisor creates for the harness."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from harness.cluster.local.supervisor_client import Control
from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import ClusterTrouble

_OUTPUT_BYTES = 1 << 20
_KILL_TIMEOUT_S = 10.0


@dataclass(slots=True)
class RemoteChild:
    """A process started by the supervisor. `pid` is the pid in the supervisor's pid namespace."""

    pid: int
    control: Control
    _code: int | None = field(default=None)

    def signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ClusterTrouble):
                self.control.ask("signal", {"pid": self.pid, "signal": int(number)})

    def poll(self) -> int | None:
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        if self._code is None:
            self._code = self.control.wait(self.pid, timeout_s)
        return self._code


def spawn(
    control: Control,
    host: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    fds: Sequence[int],
    log: str,
    queues: Sequence[str] = (),
) -> RemoteChild:
    """Starts a process on a host ("": in the supervisor's own network).

    env     environment variables for the new process, in addition to those of this process
    fds     these become descriptors 3, 4, ... of the new process
    queues  hosts; after `fds`, the new process gets a netfilter socket in the network of each of these hosts
    log     file to which the new process's standard output and error are appended

    Raises ClusterTrouble if the process cannot be started.
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as output:
        return _spawn(control, host, argv, env, [output.fileno(), output.fileno(), *fds], queues)


def run(
    control: Control,
    host: str,
    argv: Sequence[str],
    timeout_s: float,
    env: Mapping[str, str] = MappingProxyType({}),
) -> CommandResult:
    """Runs a command on a host.

    Raises ClusterTrouble if the command cannot be started or does not end within `timeout_s`.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = _spawn(control, host, argv, env, [out.fileno(), err.fileno()])
        code = child.wait(timeout_s)
        if code is None:
            child.signal(signal.SIGKILL)
            child.wait(_KILL_TIMEOUT_S)
            raise ClusterTrouble(f"{argv[0]} did not end within {timeout_s:.0f} s")
        text = []
        for stream in (out, err):
            stream.seek(0)
            text.append(stream.read(_OUTPUT_BYTES).decode(errors="replace"))
    return CommandResult(code, *text)


def new_socket(control: Control, host: str = "") -> socket.socket:
    """Returns a new TCP socket in the network of a host ("": the supervisor's). This process can use it as its own."""
    _, fds = control.ask("socket", {"host": host})
    return socket.socket(fileno=fds[0])


def _spawn(
    control: Control,
    host: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    fds: Sequence[int],
    queues: Sequence[str] = (),
) -> RemoteChild:
    arguments = {
        "host": host,
        "argv": list(argv),
        "env": {**os.environ, **env},
        "cwd": None,
        "queues": list(queues),
    }
    answer, _ = control.ask("spawn", arguments, fds)
    return RemoteChild(int(answer["pid"]), control)
