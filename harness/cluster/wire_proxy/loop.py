"""An event loop for sockets and timers, in one thread.

The loop uses epoll directly, because that takes less processor time per request than asyncio's protocols.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections.abc import Callable
from typing import Final

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP
CHUNK_BYTES: Final = 1 << 16
# How much may be queued for a slow receiver before the sender's socket is no longer read.
WAITING_BYTES_MAX: Final = 4 << 20

Ready = Callable[[int], None]


class Loop:
    """Calls functions when a file descriptor is ready, or when their time has come."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._times: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def add(self, fd: int, mask: int, ready: Ready) -> None:
        self._ready[fd] = ready
        self._epoll.register(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def remove(self, fd: int) -> None:
        del self._ready[fd]
        self._epoll.unregister(fd)

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        """Calls a function at a given time (`time.monotonic`).

        A call cannot be cancelled, so the function itself must check whether there is still something to do.
        """
        self._count += 1
        heapq.heappush(self._times, (when_s, self._count, call))

    def run(self, going: Callable[[], bool]) -> None:
        """Runs while `going` returns true."""
        while going():
            wait_s = self._times[0][0] - time.monotonic() if self._times else -1.0
            for fd, events in self._epoll.poll(max(wait_s, 0.0) if self._times else None):
                ready = self._ready.get(fd)  # None if an earlier callback of this round closed it
                if ready is not None:
                    ready(events)
            while self._times and self._times[0][0] <= time.monotonic():
                heapq.heappop(self._times)[2]()


class Endpoint:
    """One side of a connection: a socket and its output buffer.

    read     function that is called with the bytes that arrive, and with b"" at the end of the stream
    drained  function that is called when the output buffer has room again, so that reading from the other side can
             continue
    """

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        read: Callable[[bytes], None],
        drained: Callable[[], None],
        connecting: bool = False,
    ) -> None:
        self._loop, self._sock, self._read, self._drained = loop, sock, read, drained
        self._fd = sock.fileno()
        self._out = bytearray()
        self._reading, self._ending, self._connecting = True, False, connecting
        self._mask = READ | (WRITE if connecting else 0)
        self.open = True
        self.written = 0
        loop.add(self._fd, self._mask, self._ready)

    @property
    def waiting(self) -> int:
        """Number of bytes in the output buffer."""
        return len(self._out)

    def write(self, data: bytes | bytearray) -> None:
        if not self.open or not data:
            return None
        self.written += len(data)
        sent = 0
        if not self._out and not self._connecting:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                pass
            except OSError:
                return self._fail()
            if sent == len(data):
                return None
        self._out += data[sent:] if sent else data
        return self._arrange()

    def listen(self, reading: bool) -> None:
        """Starts or stops reading what arrives."""
        if self.open and reading != self._reading:
            self._reading = reading
            self._arrange()

    def end(self) -> None:
        """Closes the socket once the output buffer is empty."""
        self._ending = True
        if not self._out:
            self.close()
        else:
            self.listen(False)

    def close(self) -> None:
        """Closes the socket at once. May be called more than once."""
        if self.open:
            self.open = False
            self._loop.remove(self._fd)
            self._sock.close()
            self._out.clear()

    def _arrange(self) -> None:
        mask = (READ if self._reading else 0) | (WRITE if self._out or self._connecting else 0)
        if mask != self._mask:
            self._mask = mask
            self._loop.change(self._fd, mask)

    def _fail(self) -> None:
        self.close()
        self._read(b"")

    def _ready(self, events: int) -> None:
        if events & WRITE or (self._connecting and events & BROKEN):
            self._flush()
        if self.open and events & (READ | BROKEN) and not self._connecting:
            if not self._reading and events & BROKEN:
                return self._fail()
            try:
                data = self._sock.recv(CHUNK_BYTES)
            except BlockingIOError:
                return None
            except OSError:
                return self._fail()
            self._read(data)
        return None

    def _flush(self) -> None:
        if self._connecting:
            if self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return self._fail()
            self._connecting = False
        if self._out:
            try:
                del self._out[: self._sock.send(self._out)]
            except BlockingIOError:
                return None
            except OSError:
                return self._fail()
        if not self._out and self._ending:
            return self.close()
        if len(self._out) < WAITING_BYTES_MAX // 4:
            self._drained()
        if self.open:
            self._arrange()
        return None
