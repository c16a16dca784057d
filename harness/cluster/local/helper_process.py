"""Processes beside the servers that keep a fault on until this side of a socket closes.

One begins by sending {} once the fault is on, or {"why": text}; it has the socket as its descriptor 3.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from harness.cluster.local.remote_process import RemoteChild
from harness.model.errors_and_exit_codes import ClusterTrouble

_START_TIMEOUT_S: Final = 20.0
_ANSWER_TIMEOUT_S: Final = 5.0
_END_TIMEOUT_S: Final = 5.0

# (argv, descriptors) -> the process
Spawn = Callable[[Sequence[str], Sequence[int]], RemoteChild]


@dataclass(frozen=True, slots=True)
class Helper:
    """One that was started. `what`: how complaints name it."""

    child: RemoteChild
    end: socket.socket
    what: str

    def ask(self) -> dict[str, Any]:
        """What it has to tell. Raises ClusterTrouble when it has ended, or is silent."""
        try:
            self.end.send(b"?")
        except OSError as error:
            raise ClusterTrouble(f"{self.what}: its process has ended by itself: {error}") from error
        return self._receive(_ANSWER_TIMEOUT_S)

    def close(self) -> bool:
        """Have it undo what it does; whether it ended in time."""
        self.end.close()
        return self.child.wait(_END_TIMEOUT_S) is not None

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        self.end.settimeout(timeout_s)
        try:
            data = self.end.recv(1 << 16)
        except TimeoutError:
            raise ClusterTrouble(f"{self.what}: its process did not answer in {timeout_s:.0f} s") from None
        except OSError as error:
            raise ClusterTrouble(f"{self.what}: its process has ended: {error}") from error
        if not data:
            raise ClusterTrouble(f"{self.what}: its process has ended; supervisor.log may say why")
        message: dict[str, Any] = orjson.loads(data)
        return message


def start(spawn: Spawn, module: str, arguments: Sequence[str], what: str) -> Helper:
    """Start `python -m module`, and wait until the fault is on. Raises ClusterTrouble with what it says."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            child = spawn([sys.executable, "-m", module, *arguments], [theirs.fileno()])
        helper = Helper(child, ours, what)
        why = helper._receive(_START_TIMEOUT_S).get("why")
    except BaseException:
        ours.close()
        raise
    if why is not None:
        helper.close()
        raise ClusterTrouble(f"{what}: {why}")
    return helper
