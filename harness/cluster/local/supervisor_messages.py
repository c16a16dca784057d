"""Messages between the harness and its supervisor: one JSON object per packet, with file descriptors.

The socket is a SOCK_SEQPACKET pair, so a packet is a message, and its descriptors arrive with it.

Requests    {"id": n, "do": verb, ...}; the verbs are in `supervisor`
Answers     {"id": n, "ok": {...}} or {"id": n, "error": "what went wrong"}
Notices     {"event": "ready", ...} first; {"event": "exit", "pid": p, "code": c} for each child that ends
"""

from __future__ import annotations

import array
import errno
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

MAX_BYTES = 1 << 20
MAX_FDS = 64
BUFFER_BYTES = 4 << 20


class Closed(ConnectionError):
    """The other side is gone."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        prepare(end)
    return ends


def prepare(end: socket.socket) -> None:
    """Room for large messages, as far as the system allows (an environment can be 100 kB)."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)


def send(end: socket.socket, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message. Raises Closed, or ValueError when it is too large."""
    data = orjson.dumps(message)
    if len(data) > MAX_BYTES or len(fds) > MAX_FDS:
        raise ValueError(f"a message of {len(data)} bytes with {len(fds)} descriptors is too large")
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        end.sendmsg([data], ancillary)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed("the other side is gone") from error
    except OSError as error:
        if error.errno != errno.EMSGSIZE:
            raise
        raise ValueError(f"a message of {len(data)} bytes is too large for this system") from error


def receive(end: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One message and its descriptors, which are closed on exec. Raises Closed at the end."""
    try:
        data, ancillary, flags, _ = end.recvmsg(
            MAX_BYTES, socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError as error:
        raise Closed("the other side is gone") from error
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if not data:
        raise Closed("the other side is gone")
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for fd in fds:
            os.close(fd)
        raise ValueError("a message was cut short")
    message: dict[str, Any] = orjson.loads(data)
    return message, list(fds)
