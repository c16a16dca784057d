"""A stream as frames, without waiting for whole ones where that is not needed. No sockets in here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.protocol.request_head import HEAD_BYTES, SIZE

PASS: Final = 0  # a frame goes on as it comes
WHOLE: Final = 1  # it is taken whole


class Splitter:
    """Cuts a stream into frames of `low` to `high` bytes.

    decide  gets the first bytes of each frame, without its size: PASS or WHOLE
    emit    gets what passes, in pieces
    take    gets a whole frame, its size included, in its place between those pieces
    strange is called once, when the stream turns out not to be frames: from there on all of it passes
    """

    def __init__(
        self,
        low: int,
        high: int,
        decide: Callable[[bytes], int],
        emit: Callable[[bytes | bytearray], None],
        take: Callable[[bytes], None],
        strange: Callable[[], None],
    ) -> None:
        self._low, self._high = low, high
        self._decide, self._emit, self._take, self._strange = decide, emit, take, strange
        self._buffer = bytearray()  # the beginning of a frame that is not decided, or not whole
        self._left = 0  # bytes of a passing frame that are still to come
        self._wanted = 0  # size of the frame that is taken whole; 0: there is none
        self.opaque = False

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream."""
        if self.opaque:
            return self._emit(data)
        if len(data) <= self._left:
            self._left -= len(data)
            return self._emit(data)
        rest: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            rest = self._buffer
            if len(rest) < self._wanted:
                return None
        done = self._frames(rest)
        self._buffer = bytearray(rest[done:]) if done < len(rest) else bytearray()
        return None

    def give_up(self) -> None:
        """From here on all of the stream passes, what has come of a frame that is not whole first."""
        if not self.opaque:
            self.opaque = True
            rest, self._buffer = self._buffer, bytearray()
            self._emit(rest)

    def _frames(self, data: bytes | bytearray) -> int:
        """Go through the frames in `data`; how many bytes of it are done with."""
        size, at, begin = len(data), self._left, 0
        self._left = 0
        while size - at >= 4:
            (length,) = SIZE.unpack_from(data, at)
            if not self._wanted:
                if not self._low <= length <= self._high:
                    if begin < at:
                        self._emit(data[begin:at])
                    self._strange()
                    self.opaque = True
                    self._emit(data[at:])
                    return size
                head = min(length, HEAD_BYTES)
                if size - at - 4 < head:
                    break
                if self._decide(bytes(data[at + 4 : at + 4 + head])) == PASS:
                    at += 4 + length
                    if at > size:
                        self._left = at - size
                        at = size
                    continue
                if begin < at:
                    self._emit(data[begin:at])
                begin = at
                self._wanted = 4 + length
            if size - at < self._wanted:
                break
            frame = bytes(data[at : at + self._wanted])
            at = begin = at + self._wanted
            self._wanted = 0
            self._take(frame)
        if begin < at:
            self._emit(data[begin:at] if begin or at < size else data)
        return at
