"""Helper processes that apply a fault until the harness closes a socket.

A helper sends {} once the fault is active, or {"why": text} if it failed; the socket is its descriptor 3.
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
    """A running helper process. `what` names its fault in error messages."""

    child: RemoteChild
    end: socket.socket
    what: str

    def ask(self) -> dict[str, Any]:
        """Request the helper's current report. Raises ClusterTrouble if it has ended or does not answer."""
        try:
            self.end.send(b"?")
        except OSError as error:
            raise ClusterTrouble(f"{self.what}: the helper process has ended unexpectedly: {error}") from error
        return self._receive(_ANSWER_TIMEOUT_S)

    def close(self) -> bool:
        """Make the helper undo its fault and end. Returns whether it ended in time."""
        self.end.close()
        return self.child.wait(_END_TIMEOUT_S) is not None

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        self.end.settimeout(timeout_s)
        try:
            data = self.end.recv(1 << 16)
        except TimeoutError:
            raise ClusterTrouble(f"{self.what}: the helper process did not answer within {timeout_s:.0f} s") from None
        except OSError as error:
            raise ClusterTrouble(f"{self.what}: the helper process has ended: {error}") from error
        if not data:
            raise ClusterTrouble(f"{self.what}: the helper process has ended; see supervisor.log for the reason")
        message: dict[str, Any] = orjson.loads(data)
        return message


def start(spawn: Spawn, module: str, arguments: Sequence[str], what: str) -> Helper:
    """Start `python -m module` and wait until its fault is active. Raises ClusterTrouble with the helper's reason."""
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
