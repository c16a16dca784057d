"""Calls between processes of one user on one machine: one request and its answer per connection.

    request  an object, with descriptors
    answer   {"value": ...}, {"raise": name of the error, "text": ...}, or, while a request takes its time, {"say": ...}

Values that JSON has no word for are encoded by `harness.cluster.persistent.values`. The socket lies in a folder that
only its user can enter, and the other side's user is checked: whoever is let in can run any command.
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
    """A socket's path is 107 bytes at most, so its folder goes by a descriptor, to be closed after use."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return folder, f"/proc/self/fd/{folder}/{path.name}"


def listen(path: Path) -> socket.socket:
    """A listening socket at `path`; what stood there is replaced."""
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
    """A connection to what listens at `path`. Raises OSError."""
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
    """Whether the other side is ours, or root's."""
    raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(raw)[1] in (os.geteuid(), 0)


def send(end: socket.socket, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """Send a request and descriptors. Raises OSError."""
    json_messages.send(end, values.encode(request), fds)


def receive(end: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request or an answer, and its descriptors. Raises Closed at the end, TimeoutError."""
    data, fds = json_messages.receive(end)
    message: dict[str, Any] = values.decode(data)
    return message, fds


def answered(work: Callable[[], Any]) -> dict[str, Any]:
    """What to answer, as JSON: a value, or the error that the other side is to raise."""
    try:
        return {"value": values.encode(work())}
    except HarnessError as error:
        return {"raise": type(error).__name__, "text": str(error)}
    except Exception as error:  # a fault's trouble is the run's to handle; the keeper goes on
        return {"raise": ClusterTrouble.__name__, "text": f"{type(error).__name__}: {error}"}


def reply(end: socket.socket, work: Callable[[], Any]) -> None:
    """Send what `answered` says of some work, or that it cannot be sent. Raises OSError."""
    answer = answered(work)
    try:
        json_messages.send(end, answer)
    except (TypeError, ValueError) as error:
        json_messages.send(end, {"raise": ClusterTrouble.__name__, "text": f"an answer that cannot be sent: {error}"})


def value(answer: Mapping[str, Any]) -> Any:
    """The value of an answer. Raises what the other side raised."""
    if "raise" in answer:
        raise _ERRORS.get(answer["raise"], ClusterTrouble)(answer["text"])
    return answer["value"]


def call(path: Path, request: Mapping[str, Any], fds: Sequence[int] = (), timeout_s: float = 30.0) -> Any:
    """The answer to a request. Raises what the other side raised, or ClusterTrouble."""
    try:
        with connect(path, timeout_s) as end:
            send(end, request, fds)
            answer, passed = receive(end)
    except (TypeError, ValueError) as error:
        raise ClusterTrouble(f"{path}: a request that cannot be sent ({error})") from None
    except OSError as error:
        raise ClusterTrouble(f"{path}: no answer ({error or type(error).__name__})") from None
    for fd in passed:
        with suppress(OSError):
            os.close(fd)
    return value(answer)
