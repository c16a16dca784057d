"""A group member that never settles: it joins, and joins again with other metadata, but never sends SyncGroup.

As a broken client library could. It speaks the protocol itself: `member_without_sync.py HOST:PORT TOPIC GROUP`. While
it is the leader of a classic group, no generation of the group gets an assignment.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from harness.protocol.one_exchange import receive
from harness.protocol.primitives import text

FIND_COORDINATOR = (10, 1)
JOIN_GROUP = (11, 2)
NAME = "member-without-sync"
SESSION_MS = 60_000
WAIT_S = 90.0
AGAIN_S = 0.5


def ask(to: socket.socket, api: tuple[int, int], body: bytes) -> bytes:
    request = struct.pack(">hhi", *api, 1) + text(NAME) + body
    to.sendall(struct.pack(">i", len(request)) + request)
    return receive(to, time.monotonic() + WAIT_S)[4:]


def coordinator(host: str, port: int, group: str) -> tuple[str, int] | None:
    with socket.create_connection((host, port), 5) as connected:
        answer = ask(connected, FIND_COORDINATOR, text(group) + b"\0")
    error, message = struct.unpack_from(">hh", answer, 4)
    if error:
        return None
    at = 8 + max(message, 0) + 4
    (length,) = struct.unpack_from(">h", answer, at)
    return answer[at + 2 : at + 2 + length].decode(), struct.unpack_from(">i", answer, at + 2 + length)[0]


def join(to: socket.socket, topic: str, group: str, member: bytes, number: int) -> bytes:
    """Returns the id that the coordinator knows the member by; empty if it knows it no more."""
    data = struct.pack(">i", number)
    metadata = struct.pack(">hi", 0, 1) + text(topic) + struct.pack(">i", len(data)) + data
    names = b"".join(text(name) + struct.pack(">i", len(metadata)) + metadata for name in ("range", "roundrobin"))
    known = struct.pack(">h", len(member)) + member
    body = text(group) + struct.pack(">ii", SESSION_MS, SESSION_MS) + known + text("consumer")
    answer = ask(to, JOIN_GROUP, body + struct.pack(">i", 2) + names)
    (error,) = struct.unpack_from(">h", answer, 4)
    if error:
        return b""
    at = 10
    values = []
    for _ in ("protocol", "leader", "member"):
        (length,) = struct.unpack_from(">h", answer, at)
        values.append(answer[at + 2 : at + 2 + length])
        at += 2 + length
    return values[2]


def main(address: str, topic: str, group: str) -> None:
    host, _, port = address.rpartition(":")
    member, number = b"", 0
    while True:
        try:
            at = coordinator(host, int(port), group)
            if at is not None:
                with socket.create_connection(at, 5) as connected:
                    while True:
                        number += 1
                        member = join(connected, topic, group, member, number)
                        print(number, member.decode(), flush=True)
                        time.sleep(AGAIN_S)
        except OSError as error:
            print(error, flush=True)
        time.sleep(AGAIN_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
