"""Makes links slow, lossy or narrow by delaying packets in queues of the kernel (NFQUEUE).

A rule (`netlink.hold`) sends packets to a queue. The kernel reports the number of each queued packet to this process,
and keeps the packet until this process accepts or drops it. No netem, root or library is needed. Packets are delayed at
the receiver. At the sender, a delay would make TCP hold back further packets (TCP small queues), and TCP would notice a
loss at once.

When this process ends, it accepts all queued packets. If it is killed, the kernel drops them and lets later packets
pass (the bypass flag), so a queue without a process blocks nothing.

Run as `python -m harness.cluster.local.packet_queue NUMBER QUALITY SEED ADDRESS ...`. QUALITY is a `LinkQuality` as
JSON, for the links of the hosts with these addresses. Descriptor 3 is a control socket. Descriptors 4 and up are
netfilter sockets, one for each host at which packets are queued; the packets are in queue NUMBER of that host's
network. On the control socket, the process sends {} once it listens to the queues, or {"why": text} if that failed. It
answers each message with {address: `LinkCounts`} as JSON, and ends when the other side closes the control socket.

With the only argument `--probe`, the process tries to set up a queue in temporary namespaces, and ends.

Source: linux/netfilter/nfnetlink_queue.h.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final

import orjson

from harness.cluster.local.link_quality import MAX_QUEUED, Packet, Shaper
from harness.model.capabilities import LinkQuality

CONTROL: Final = 3
_BUFFER_BYTES: Final = 16 << 20
_AT_ONCE: Final = 256

_PACKET, _VERDICT, _CONFIG = 0x300, 0x301, 0x302
_REQUEST, _ACK = 1, 4
_ERROR: Final = 2
_BIND: Final = 1
_COPY_PACKET: Final = 2
# The IPv4 header up to and including both addresses, which are bytes 12 to 20.
_COPIED_BYTES: Final = 20
_CFG_COMMAND, _CFG_PARAMS, _CFG_MAX_LENGTH = 1, 2, 3
_ATTR_PACKET, _ATTR_VERDICT, _ATTR_PAYLOAD, _ATTR_LENGTH = 1, 2, 10, 13
_ACCEPT, _DROP = 1, 0
_RCVBUFFORCE: Final = 33

_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_FAMILY: Final = struct.Struct("!BBH")
_ID: Final = struct.Struct("!I")


class Queue:
    """A packet queue, in the network to which a netfilter socket belongs.

    Raises OSError if the kernel does not support queues.
    """

    def __init__(self, end: socket.socket, number: int) -> None:
        self.end = end
        end.bind((0, 0))
        try:
            end.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, _BUFFER_BYTES)
        except OSError:  # not permitted to the root of a user namespace
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._family = _FAMILY.pack(0, 0, number)
        self._configure(_CFG_COMMAND, struct.pack("!BBH", _BIND, 0, socket.AF_INET))
        self._configure(_CFG_PARAMS, struct.pack("!IB", _COPIED_BYTES, _COPY_PACKET))
        self._configure(_CFG_MAX_LENGTH, struct.pack("!I", 2 * MAX_QUEUED))  # above our own limit, which applies first
        end.setblocking(False)

    def arrived(self) -> Iterator[tuple[int, bytes, bytes, int]]:
        """Yields (number, sender, receiver, size in bytes) of new packets, at most `_AT_ONCE` of them."""
        for _ in range(_AT_ONCE):
            try:
                data = self.end.recv(4096)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # the kernel dropped packets that did not fit into our buffer
                    raise
                continue
            if _HEADER.unpack_from(data)[1] == _PACKET:
                yield _packet(data)

    def decide(self, numbers: Sequence[int], verdict: int) -> None:
        """Accepts or drops (`verdict`) the packets with these numbers, in this order."""
        for start in range(0, len(numbers), _AT_ONCE):
            batch = numbers[start : start + _AT_ONCE]
            self.end.send(b"".join(self._verdict(number, verdict) for number in batch))

    def _verdict(self, number: int, verdict: int) -> bytes:
        attribute = _ATTRIBUTE.pack(12, _ATTR_VERDICT) + struct.pack("!II", verdict, number)
        return _HEADER.pack(32, _VERDICT, _REQUEST, 0, 0) + self._family + attribute

    def _configure(self, kind: int, content: bytes) -> None:
        padded = content + bytes(-len(content) % 4)
        body = self._family + _ATTRIBUTE.pack(4 + len(content), kind) + padded
        self.end.send(_HEADER.pack(_HEADER.size + len(body), _CONFIG, _REQUEST | _ACK, 1, 0) + body)
        answer = self.end.recv(4096)
        if _HEADER.unpack_from(answer)[1] == _ERROR:
            (number,) = struct.unpack_from("=i", answer, _HEADER.size)
            if number:
                raise OSError(-number, f"NFQUEUE: {os.strerror(-number)}")


def _packet(data: bytes) -> tuple[int, bytes, bytes, int]:
    at, end = _HEADER.size + _FAMILY.size, len(data)
    number, size, sender, receiver = 0, 0, b"", b""
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _ATTR_PACKET:
            (number,) = _ID.unpack_from(data, at + 4)
        elif kind == _ATTR_LENGTH:
            (size,) = _ID.unpack_from(data, at + 4)
        elif kind == _ATTR_PAYLOAD:
            sender, receiver = data[at + 16 : at + 20], data[at + 20 : at + 24]
        at += (length + 3) & ~3
    return number, sender, receiver, size


def serve(queues: Sequence[Queue], shapers: Mapping[bytes, Shaper], control: socket.socket) -> None:
    """Delays or drops packets as the shapers of their links decide, until the other side of `control` closes."""
    poll = select.poll()
    for each in (control, *(queue.end for queue in queues)):
        poll.register(each, select.POLLIN)
    while True:
        now_ns = time.monotonic_ns()
        waits = [wait for shaper in shapers.values() if (wait := shaper.next_ns(now_ns)) is not None]
        ready = dict(poll.poll(min(waits) / 1e6 if waits else None))
        if control.fileno() in ready:
            if not control.recv(64):
                break
            counts = {socket.inet_ntoa(at): asdict(shaper.counts()) for at, shaper in shapers.items()}
            control.send(orjson.dumps(counts))
        for index, queue in enumerate(queues):
            if queue.end.fileno() in ready:
                _take(index, queue, shapers)
        now_ns = time.monotonic_ns()
        for shaper in shapers.values():
            _decide(queues, *shaper.due(now_ns))
    for shaper in shapers.values():
        _decide(queues, *shaper.rest())


def _take(index: int, queue: Queue, shapers: Mapping[bytes, Shaper]) -> None:
    """Passes new packets of a queue to the shapers of their links; accepts packets of other links at once.

    If the links of both hosts are degraded, only the shaper of the sender delays the packet. `index` is the position of
    `queue` in the list of queues; shapers return it with each packet.
    """
    now_ns = time.monotonic_ns()
    for number, sender, receiver, size in queue.arrived():
        if sender in shapers:
            shapers[sender].arrive((index, number), False, size, now_ns)
        elif receiver in shapers:
            shapers[receiver].arrive((index, number), True, size, now_ns)
        else:
            queue.decide([number], _ACCEPT)


def _decide(queues: Sequence[Queue], accepted: Sequence[Packet], dropped: Sequence[Packet]) -> None:
    for packets, verdict in ((accepted, _ACCEPT), (dropped, _DROP)):
        by_queue: dict[int, list[int]] = {}
        for index, number in packets:
            by_queue.setdefault(index, []).append(number)
        for index, numbers in by_queue.items():
            queues[index].decide(numbers, verdict)


def main(argv: list[str]) -> int:
    """Delays packets until the control socket closes, or probes the kernel (see above). Exit code 1: it failed."""
    if argv == ["--probe"]:
        return probe()
    number, content, seed, *addresses = argv
    quality = LinkQuality(**orjson.loads(content))
    shapers = {socket.inet_aton(address): Shaper(quality, int(seed) + n) for n, address in enumerate(addresses)}
    control = socket.socket(fileno=CONTROL)
    try:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -10)  # otherwise packets are delayed too long; root only
        queues = [Queue(end, int(number)) for end in _given()]
    except OSError as error:
        control.send(orjson.dumps({"why": str(error)}))
        return 1
    control.send(b"{}")
    serve(queues, shapers, control)
    return 0


def _given() -> Iterator[socket.socket]:
    """Yields the sockets passed as descriptors 4 and up."""
    for fd in sorted(int(name) for name in os.listdir("/proc/self/fd")):  # noqa: PTH208  only names are needed
        if fd > CONTROL:
            with suppress(OSError):  # the descriptor of the listing itself is closed by now
                yield socket.socket(fileno=fd)


def probe() -> int:
    """Tests whether the kernel supports packet queues; returns the exit code."""
    from harness.cluster.local import namespaces, netlink

    try:
        namespaces.enter()
        netlink.make_bridge()
        host = netlink.make_host("h", "10.64.0.2", 1)
        Queue(socket.socket(fileno=netlink.queue_socket(host)), 1)
        netlink.hold(host, ["10.64.0.3"], 1)
    except Exception as error:  # whatever the kernel answers is reported
        print(error if str(error) else type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
