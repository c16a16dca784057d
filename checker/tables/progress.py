"""Reports the progress of reading a history line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from checker.tables.read_history import Line

QUIET_S: Final = 2.0
EVERY: Final = 4096

Progress = Callable[[str], None]


class Counted:
    """Counts lines while they are read, and reports the count every two seconds."""

    def __init__(self, progress: Progress, what: str = "") -> None:
        self._progress, self._what, self.lines = progress, what, 0
        self._began = self._reported = time.monotonic()

    def __call__(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Yields the lines unchanged, and counts them."""
        for line in lines:
            yield line
            self.add(1)

    def add(self, count: int) -> None:
        """Counts lines."""
        before, self.lines = self.lines, self.lines + count
        if self.lines // EVERY > before // EVERY and time.monotonic() - self._reported > QUIET_S:
            self._reported = time.monotonic()
            rate = self.lines / (self._reported - self._began)
            self._progress(f"{self._what}{self.lines:,} lines, {rate:,.0f} a second")
