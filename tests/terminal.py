"""Runs a command on a terminal, and reads the screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType

import pyte


class Terminal:
    """Runs a command in a separate session; `text` is the current content of its screen.

    raw  everything that was written to the terminal
    """

    def __init__(
        self, command: Sequence[str], columns: int = 100, rows: int = 40, env: Mapping[str, str] = os.environ
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._ours, theirs = os.openpty()
        self._size(theirs, columns, rows)
        # COLUMNS and LINES override the terminal's size, and pytest-xdist's workers set them.
        env = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()

    @staticmethod
    def _size(fd: int, columns: int, rows: int) -> None:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._size(self._ours, columns, rows)

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def hang_up(self) -> None:
        """Closes the terminal."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def until(self, seen: Callable[[str], bool], timeout_s: float = 120.0) -> None:
        """Reads until the screen meets the condition. Fails when the command ends first, or after the timeout."""
        for text in self._screens(timeout_s):
            if seen(text):
                return
        raise AssertionError(f"not seen; the screen was:\n{self.text}")

    def end(self, timeout_s: float = 120.0) -> int:
        """Reads until the command ends. Returns its exit code."""
        for _ in self._screens(timeout_s):
            pass
        return self.process.wait(timeout_s)

    def _screens(self, timeout_s: float) -> Iterator[str]:
        deadline = time.monotonic() + timeout_s
        yield self.text
        while (left_s := deadline - time.monotonic()) > 0:
            if not select.select([self._ours], [], [], left_s)[0]:
                return
            data = b""
            with contextlib.suppress(OSError):  # the other side is closed
                data = os.read(self._ours, 65536)
            if not data:
                return
            self.raw += data
            self._stream.feed(data)
            yield self.text
