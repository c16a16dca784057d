"""Runs commands on a host through ssh. Input and output are streams of bytes; every command has a time limit.

Login is by key only, and only to hosts whose own key is known. If the connection breaks during a command, it is
re-established once and the command is run again, so commands must be repeatable. Errors name the host. Thread-safe.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import paramiko

from harness.cluster.ssh.hosts import Host
from harness.cluster.ssh.log_in import connect
from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import ClusterTrouble, Missing

Sink = Callable[[bytes], None]
Source = Callable[[Sink], None]  # writes everything to a sink, piece by piece

_OUTPUT_BYTES: Final = 1 << 20


class Link:
    """An ssh connection to one host, established on first use."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._client: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def connect(self) -> None:
        """Connects, unless connected already. Raises Missing, with what to do."""
        self._transport()

    def close(self) -> None:
        """Closes the connection for good: later commands fail. May be called more than once."""
        with self._lock:
            self._closed = True
            self._drop()

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
        """Runs a command, and waits until it ends. Raises ClusterTrouble if it does not end within `timeout_s`."""
        out = bytearray()

        def keep(chunk: bytes) -> None:
            out.extend(chunk[: _OUTPUT_BYTES - len(out)])

        def give(sink: Sink) -> None:
            sink(stdin)

        code, err = self.stream(command, timeout_s, give, keep, out.clear)
        return CommandResult(code, out.decode(errors="replace"), err)

    def stream(
        self, command: str, timeout_s: float, give: Source, take: Sink, again: Callable[[], None]
    ) -> tuple[int, str]:
        """Runs a command; returns its exit code and standard error.

        give   writes the command's input: it gets a function, and calls this function with each piece of the input
        take   called with each piece of the command's output
        again  called if the connection broke, before the command is run a second time

        Raises ClusterTrouble.
        """
        deadline = time.monotonic() + timeout_s
        for last in (False, True):
            try:
                return self._once(command, deadline, give, take)
            except TimeoutError:
                raise self._trouble(f"did not end within {timeout_s:.0f} s: {command[:60]}") from None
            except (paramiko.SSHException, OSError, EOFError) as error:
                with self._lock:
                    self._drop()
                if last or self._closed:
                    raise self._trouble(f"the connection broke ({error or 'closed'})") from None
                again()
            except Missing as error:  # reconnecting failed
                raise ClusterTrouble(str(error)) from None
        raise AssertionError

    def _once(self, command: str, deadline: float, give: Source, take: Sink) -> tuple[int, str]:
        with contextlib.closing(self._transport().open_session(timeout=_left(deadline))) as channel:
            channel.settimeout(_left(deadline))
            channel.exec_command(command)
            complaints = bytearray()
            reader = threading.Thread(target=_drain, args=(channel, complaints), daemon=True)
            reader.start()
            feeding = threading.Thread(target=_feed, args=(channel, deadline, give), daemon=True)
            feeding.start()
            while True:
                channel.settimeout(_left(deadline))
                chunk = channel.recv(1 << 16)
                if not chunk:
                    break
                take(chunk)
            if not channel.status_event.wait(_left(deadline)):
                raise TimeoutError
            code = channel.recv_exit_status()
            if code == -1:
                raise paramiko.SSHException("closed")
            reader.join(_left(deadline))
            feeding.join(_left(deadline))
            return code, complaints.decode(errors="replace").strip()

    def _transport(self) -> Any:
        with self._lock:
            if self._closed:
                raise self._trouble("the connection was closed")
            if self._client is not None and self._client.get_transport().is_active():
                return self._client.get_transport()
            self._drop()
            self._client = connect(self.host)
            return self._client.get_transport()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _trouble(self, text: str) -> ClusterTrouble:
        return ClusterTrouble(f"{self.host.name} ({self.host.at}): {text}")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _drain(channel: Any, into: bytearray) -> None:
    """Reads a command's standard error until its end, and appends it to `into`.

    Ignores errors of the connection, because the thread that reads standard output handles them.
    """
    with contextlib.suppress(OSError, EOFError):
        while chunk := channel.recv_stderr(1 << 14):
            into.extend(chunk[: _OUTPUT_BYTES - len(into)])


def _feed(channel: Any, deadline: float, give: Source) -> None:
    """Writes a command's input with `give` (see `Link.stream`).

    Ignores errors, because the command may end before it has read all its input.
    """

    def sink(data: bytes) -> None:
        channel.settimeout(_left(deadline))
        channel.sendall(data)

    try:
        with contextlib.suppress(OSError, EOFError):
            give(sink)
    finally:
        with contextlib.suppress(OSError, EOFError):
            channel.shutdown_write()
