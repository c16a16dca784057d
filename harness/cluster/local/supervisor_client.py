"""The harness's side of the supervisor: starts it, sends requests, receives answers and exit notices. Thread-safe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from harness.cluster import json_messages
from harness.cluster.json_messages import Closed
from harness.cluster.local import namespaces
from harness.model.errors_and_exit_codes import ClusterTrouble

_START_TIMEOUT_S = 30.0
_ANSWER_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0

Answer = tuple[dict[str, Any], list[int]]


class Refused(Exception):
    """Raised if the system does not allow namespaces; the text gives the reason."""


class Control:
    """A running supervisor.

    Everything that the supervisor has started ends when `close` is called, or when this process ends.
    """

    def __init__(self, isolated: bool, log: Path) -> None:
        """Starts a supervisor, in namespaces if `isolated`. Its output is appended to the file `log`.

        Raises Refused if namespaces are refused, ClusterTrouble if the supervisor does not start for another reason.
        """
        ours, theirs = json_messages.pair()
        self._socket = ours
        mode = "--namespaces" if isolated else "--loopback"
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.cluster.local.supervisor", mode, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C must reach only the harness, which then heals the cluster
                env={**os.environ, "PYTHONPATH": namespaces.python_path()},
            )
        self._await_ready(log)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._next = 0
        self._waiting: dict[int, SimpleQueue[Answer]] = {}
        self._exits: dict[int, int] = {}
        self._closed = False  # no more requests are accepted
        self._gone = False  # no more messages will arrive
        self._reader = threading.Thread(target=self._read, name="supervisor-reader", daemon=True)
        self._reader.start()

    def _await_ready(self, log: Path) -> None:
        self._socket.settimeout(_START_TIMEOUT_S)
        try:
            message, _ = json_messages.receive(self._socket)
        except (Closed, TimeoutError) as error:
            self._abandon()
            raise ClusterTrouble(f"the cluster's supervisor did not start; see {log} for the reason") from error
        self._socket.settimeout(None)
        if message["event"] != "ready":
            self._abandon()
            raise Refused(str(message.get("why")))

    def _abandon(self) -> None:
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT_S)
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The supervisor's pid, in the harness's pid namespace."""
        return self._process.pid

    def ask(
        self,
        verb: str,
        arguments: Mapping[str, Any],
        fds: Sequence[int] = (),
        timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> Answer:
        """Sends a request, and waits for its answer.

        Raises ClusterTrouble if the request is refused or not answered within `timeout_s`.
        """
        answers: SimpleQueue[Answer] = SimpleQueue()
        with self._lock:
            if self._closed or self._gone:
                what = "has been taken down" if self._closed else "has ended: its supervisor ended"
                raise ClusterTrouble(f"the cluster {what}")
            number = self._next
            self._next += 1
            self._waiting[number] = answers
        try:
            with self._lock:
                json_messages.send(self._socket, {"id": number, "do": verb, **arguments}, fds)
            message, received = answers.get(timeout=timeout_s)
        except Closed as error:
            raise ClusterTrouble("the cluster's supervisor has ended") from error
        except ValueError as error:
            raise ClusterTrouble(f"{verb}: {error}") from error
        except Empty:
            raise ClusterTrouble(f"the cluster's supervisor did not answer {verb} within {timeout_s:.0f} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in message:
            raise ClusterTrouble(str(message["error"]))
        return message["ok"], received

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Returns the exit code of a child; None if the child is still running after `timeout_s`.

        Returns the code of SIGKILL if the supervisor has ended, because all children are killed then.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while pid not in self._exits:
                if self._gone:
                    return -signal.SIGKILL
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return self._exits[pid]

    def close(self) -> None:
        """Ends the supervisor and all its descendants. May be called more than once."""
        with suppress(ClusterTrouble):
            self.ask("end", {}, timeout_s=_END_TIMEOUT_S)
        with self._lock:
            self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_TIMEOUT_S)
        self._socket.close()

    def _read(self) -> None:
        """Passes answers to the threads that wait for them, and records exits, until the supervisor ends."""
        try:
            with suppress(OSError):  # the other side closed the socket (Closed is an OSError), or this side did
                while True:
                    self._hear(*json_messages.receive(self._socket))
        finally:
            with self._changed:
                self._gone = True
                for waiting in self._waiting.values():
                    waiting.put(({"error": "the cluster's supervisor has ended"}, []))
                self._changed.notify_all()

    def _hear(self, message: Mapping[str, Any], fds: list[int]) -> None:
        """Handles one answer or exit notice."""
        with self._changed:
            if message.get("event") == "exit":
                self._exits[message["pid"]] = message["code"]
                self._changed.notify_all()
            if "id" in message:
                # The kernel may reuse the pid of a child that has ended.
                self._exits.pop(message.get("ok", {}).get("pid"), None)
                waiting = self._waiting.get(message["id"])
                if waiting is not None:
                    waiting.put((dict(message), fds))
                    return
        for fd in fds:
            os.close(fd)
