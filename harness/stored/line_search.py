"""Binary search in a large text file. Its lines contain numbers, by which they are sorted in ascending order.

In a history, the number is the index of the operation. In a broker's log, it is the time; some lines have no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

NEAR: Final = 1 << 16  # bytes; below this distance, reading line by line is as fast as halving
KEYLESS_MAX: Final = 4096  # maximum number of consecutive lines without a number that are skipped
LINE_MAX: Final = 256 << 20

Key = Callable[[bytes], float | None]


def seek(file: BinaryIO, key: Key, wanted: float) -> bool:
    """Moves the file's position to the first line whose number is at least `wanted`. Returns False if there is none.

    This reads a few lines at each of O(log size) positions, and then not much more than NEAR bytes. If the lines are
    not in order, the resulting position is arbitrary. Callers must therefore check the line that they read at this
    position. `key` returns the number of a line, or None.
    """
    low, high = 0, file.seek(0, 2)
    while high - low > NEAR:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline(LINE_MAX)  # the rest of a line
        found = _next(file, key, high)
        if found is None or found[0] >= wanted:
            high = middle
        else:
            low = found[1]
    file.seek(low)
    while line := file.readline(LINE_MAX):
        number = key(line)
        if number is not None and number >= wanted:
            file.seek(-len(line), 1)
            return True
    return False


def _next(file: BinaryIO, key: Key, high: int) -> tuple[float, int] | None:
    """Returns (number, end) of the next line that has a number and begins before `high`; None if there is none."""
    for _ in range(KEYLESS_MAX):
        if file.tell() >= high:
            return None
        line = file.readline(LINE_MAX)
        if not line:
            return None
        number = key(line)
        if number is not None:
            return number, file.tell()
    return None
