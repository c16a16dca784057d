"""Messages between processes on one machine: JSON values and file descriptors on a stream socket.

A message consists of the length of a JSON value (8 bytes, big-endian) and the value itself. File descriptors are sent
with the length, so they arrive with their message. (Workers use another format for ops and completions, JSON lines
without descriptors: see `harness.run.worker`.)
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

import orjson

MAX_BYTES: Final = 64 << 20
MAX_FDS: Final = 64
_LENGTH: Final = struct.Struct(">Q")
_FDS_BYTES: Final = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
_CHUNK_BYTES: Final = 1 << 20


class Closed(ConnectionError):
    """The other side has closed the connection."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Returns two connected sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def send(end: socket.socket, message: Any, fds: Sequence[int] = ()) -> None:
    """Sends one message. Raises Closed, OSError, or ValueError if the message is too large."""
    data = orjson.dumps(message)
    if len(data) > MAX_BYTES or len(fds) > MAX_FDS:
        raise ValueError(f"a message of {len(data)} bytes with {len(fds)} descriptors is too large")
    try:
        socket.send_fds(end, [_LENGTH.pack(len(data))], list(fds))
        end.sendall(data)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed("the other side has closed the connection") from error


def receive(end: socket.socket) -> tuple[Any, list[int]]:
    """Returns one message and its file descriptors, which are set to close on exec. Raises Closed, TimeoutError.

    If an error is raised, all received descriptors are closed.
    """
    fds = array.array("i")
    try:
        # `socket.recv_fds` ignores its flags, so child processes would inherit the descriptors.
        length, ancillary, flags, _ = end.recvmsg(_LENGTH.size, _FDS_BYTES, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        if flags & socket.MSG_CTRUNC:
            raise Closed("descriptors were lost: this process has too many open files")
        if not length:
            raise Closed("the other side has closed the connection")
        length += _exactly(end, _LENGTH.size - len(length))
        (size,) = _LENGTH.unpack(length)
        if size > MAX_BYTES:
            raise Closed(f"a message of {size} bytes is too large")
        return orjson.loads(_exactly(end, size)), list(fds)
    except BaseException as error:
        for fd in fds:
            os.close(fd)
        if isinstance(error, ConnectionResetError):
            raise Closed("the other side has closed the connection") from error
        raise


def _exactly(end: socket.socket, size: int) -> bytes:
    chunks = []
    while size:
        chunk = end.recv(min(size, _CHUNK_BYTES))
        if not chunk:
            raise Closed("the other side has closed the connection")
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
