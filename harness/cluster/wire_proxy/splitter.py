"""Splits a stream into frames. Waits until a frame is complete only if necessary. Uses no sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.protocol.request_head import HEAD_BYTES, SIZE

PASS: Final = 0  # forward a frame in pieces, as they arrive
WHOLE: Final = 1  # wait until the frame is complete


class Splitter:
    """Splits a stream into frames. The size field of a frame must be from `low` to `high`.

    decide      receives the first bytes of each frame, after the size field; returns PASS or WHOLE
    emit        receives the bytes of PASS frames, in pieces
    take        receives each complete WHOLE frame, including its size field, in the order of the stream
    not_frames  is called once if the stream turns out not to consist of frames; the rest of the stream goes to `emit`
    """

    def __init__(
        self,
        low: int,
        high: int,
        decide: Callable[[bytes], int],
        emit: Callable[[bytes | bytearray], None],
        take: Callable[[bytes], None],
        not_frames: Callable[[], None],
    ) -> None:
        self._low, self._high = low, high
        self._decide, self._emit, self._take, self._not_frames = decide, emit, take, not_frames
        self._buffer = bytearray()  # the start of a frame that is undecided or incomplete
        self._left = 0  # bytes of a passing frame that have not arrived yet
        self._wanted = 0  # size of the frame that is to be completed; 0: none
        self.opaque = False

    def feed(self, data: bytes) -> None:
        """Processes the next bytes of the stream."""
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

    @property
    def between_frames(self) -> bool:
        """Whether the last byte so far was the last byte of a frame, so that no frame is incomplete."""
        return not self._left and not self._wanted

    def give_up(self) -> None:
        """Lets the rest of the stream pass, including what has arrived of an incomplete frame."""
        if not self.opaque:
            self.opaque = True
            rest, self._buffer = self._buffer, bytearray()
            self._emit(rest)

    def _frames(self, data: bytes | bytearray) -> int:
        """Processes the frames in `data`; returns how many of its bytes have been processed."""
        size, at, begin = len(data), self._left, 0
        self._left = 0
        while size - at >= 4:
            (length,) = SIZE.unpack_from(data, at)
            if not self._wanted:
                if not self._low <= length <= self._high:
                    if begin < at:
                        self._emit(data[begin:at])
                    self._not_frames()
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
