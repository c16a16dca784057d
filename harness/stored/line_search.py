"""Finding a place in a large file of lines without reading all of it: lines ordered by a number, halved.

Used for the history (ordered by index) and for server logs (ordered by time, with lines between that carry
none).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

NEAR: Final = 1 << 16  # bytes within which reading on is as quick as halving
KEYLESS_MAX: Final = 4096  # lines without a number that are passed over in search of one that has it
LINE_MAX: Final = 256 << 20

Key = Callable[[bytes], float | None]


def seek(file: BinaryIO, key: Key, wanted: float) -> bool:
    """Put the file at the first line whose number is `wanted` or more; False when there is none.

    Reads O(log size) pieces, and at the end at most NEAR bytes and the line after them. In a file that is not
    in order it stops somewhere: look at what stands there.
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
    """(number, end) of the next line that has a number and begins before `high`."""
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
