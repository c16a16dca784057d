"""Calls between processes of one user on one machine: one request and its answer per connection.

    request  an object, with file descriptors
    answer   {"value": ...}, or {"raise": name of the error, "text": ...}
             before the answer, any number of progress messages {"say": ...}

Values without a JSON representation are encoded by `harness.cluster.persistent.values`. Whoever can connect to the
socket can run any command. Therefore only the socket's owner can enter its folder, and the user id of each peer is
checked.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.cluster import json_messages
from harness.cluster.persistent import values
from harness.model.errors_and_exit_codes import BadHistory, BadInput, ClusterTrouble, HarnessError, Missing

_CREDENTIALS: Final = struct.Struct("3i")
_ERRORS: Final = {kind.__name__: kind for kind in (HarnessError, BadInput, Missing, BadHistory, ClusterTrouble)}


def _short(path: Path) -> tuple[int, str]:
    """Returns (descriptor of the folder of `path`, a short path to the same file through that descriptor).

    A short path is needed because a socket's path may have at most 107 bytes. The caller closes the descriptor.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return folder, f"/proc/self/fd/{folder}/{path.name}"


def listen(path: Path) -> socket.socket:
    """Returns a socket that listens at `path`. Removes an existing file at `path` first."""
    path.unlink(missing_ok=True)
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder, name = _short(path)
    try:
        end.bind(name)
        path.chmod(0o600)
        end.listen(64)
    finally:
        os.close(folder)
    return end


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Returns a connection to the socket at `path`. Raises OSError."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.settimeout(timeout_s)
    folder = -1
    try:
        folder, name = _short(path)
        end.connect(name)
    except OSError:
        end.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return end


def same_user(end: socket.socket) -> bool:
    """Returns whether the other end of the connection belongs to this user or to root."""
    raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] in (os.geteuid(), 0)


def send(end: socket.socket, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """Sends a request with file descriptors. Raises OSError."""
    json_messages.send(end, values.encode(request), fds)


def receive(end: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns a request or an answer, and its file descriptors. Raises TimeoutError; Closed at the stream's end."""
    data, fds = json_messages.receive(end)
    message: dict[str, Any] = values.decode(data)
    return message, fds


def answered(work: Callable[[], Any]) -> dict[str, Any]:
    """Calls `work`; returns the answer as an object for JSON: the result of `work`, or the error that it raised."""
    try:
        return {"value": values.encode(work())}
    except HarnessError as error:
        return {"raise": type(error).__name__, "text": str(error)}
    except Exception as error:  # report every failure to the caller; the keeper continues
        return {"raise": ClusterTrouble.__name__, "text": f"{type(error).__name__}: {error}"}


def reply(end: socket.socket, work: Callable[[], Any]) -> None:
    """Calls `work`, and sends its result as the answer, or an error if the result cannot be encoded. Raises OSError."""
    answer = answered(work)
    try:
        json_messages.send(end, answer)
    except (TypeError, ValueError) as error:
        json_messages.send(end, {"raise": ClusterTrouble.__name__, "text": f"the answer cannot be encoded: {error}"})


def value(answer: Mapping[str, Any]) -> Any:
    """Returns the value in an answer. If the answer contains an error instead, raises that error."""
    if "raise" in answer:
        raise _ERRORS.get(answer["raise"], ClusterTrouble)(answer["text"])
    return answer["value"]


def call(path: Path, request: Mapping[str, Any], fds: Sequence[int] = (), timeout_s: float = 30.0) -> Any:
    """Sends a request; returns the value in the answer.

    Raises the error in the answer, or ClusterTrouble if there is no answer.
    """
    try:
        with connect(path, timeout_s) as end:
            send(end, request, fds)
            answer, passed = receive(end)
    except (TypeError, ValueError) as error:
        raise ClusterTrouble(f"{path}: the request cannot be encoded ({error})") from None
    except OSError as error:
        raise ClusterTrouble(f"{path}: no answer ({error or type(error).__name__})") from None
    for fd in passed:
        with suppress(OSError):
            os.close(fd)
    return value(answer)
