"""Calls between processes of one user on one machine: one request and its answer per connection.

The socket lies in a folder that only its user can enter, and the other side's user is checked, so values are
pickled: whoever can write there could run any command as well.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.model.errors import ClusterTrouble

FDS_MAX: Final = 64
BYTES_MAX: Final = 1 << 30
_HEADER: Final = struct.Struct(">Q")
_CREDENTIALS: Final = struct.Struct("3i")


class Closed(ConnectionError):
    """The other side is gone."""


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


def send(end: socket.socket, value: Any, fds: Sequence[int] = ()) -> None:
    """Send one value and descriptors. Raises OSError."""
    data = pickle.dumps(value)
    socket.send_fds(end, [_HEADER.pack(len(data))], list(fds))
    end.sendall(data)


def receive(end: socket.socket) -> tuple[Any, list[int]]:
    """One value and its descriptors. Raises Closed at the end, TimeoutError."""
    try:
        header, fds, _, _ = socket.recv_fds(end, _HEADER.size, FDS_MAX)
        if not header:
            raise Closed("the other side is gone")
        header += _exactly(end, _HEADER.size - len(header))
        (size,) = _HEADER.unpack(header)
        if size > BYTES_MAX:
            raise Closed(f"a message of {size} bytes")
        return pickle.loads(_exactly(end, size)), fds
    except ConnectionResetError as error:
        raise Closed("the other side is gone") from error


def _exactly(end: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = end.recv(min(size, 1 << 20))
        if not part:
            raise Closed("the other side is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def call(path: Path, request: Any, fds: Sequence[int] = (), timeout_s: float = 30.0) -> Any:
    """The answer to a request. Raises what the other side raised, or ClusterTrouble."""
    try:
        with connect(path, timeout_s) as end:
            send(end, request, fds)
            (kind, value), passed = receive(end)
    except (Closed, OSError) as error:
        raise ClusterTrouble(f"{path}: no answer ({error or type(error).__name__})") from None
    for fd in passed:
        with suppress(OSError):
            os.close(fd)
    if kind == "raise":
        raise value
    return value
