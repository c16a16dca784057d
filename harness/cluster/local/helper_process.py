"""Helper processes. Each applies a fault until the harness closes the socket between them.

The socket is the helper's descriptor 3. The helper sends {} once the fault is active, or {"why": text} if the fault
could not be applied.
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
    """A running helper process. `what` names the helper's fault in error messages."""

    child: RemoteChild
    end: socket.socket
    what: str

    def ask(self) -> dict[str, Any]:
        """Asks the helper for a report on its fault, and returns the report.

        Raises ClusterTrouble if the helper has ended or does not answer.
        """
        try:
            self.end.send(b"?")
        except OSError as error:
            raise ClusterTrouble(f"{self.what}: the helper process has ended unexpectedly: {error}") from error
        return self._receive(_ANSWER_TIMEOUT_S)

    def close(self) -> bool:
        """Makes the helper undo its fault and end. Returns whether the helper ended within the time limit."""
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
    """Starts `python -m MODULE` as a helper, and waits until its fault is active. `what` names the fault in errors.

    Raises ClusterTrouble with the helper's reason if the fault cannot be applied.
    """
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
