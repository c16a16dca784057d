"""Reads a log file while a server appends to it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 1 << 20


def tail(path: Path, offset: int | None) -> tuple[bytes, int]:
    """Returns at most 1 MiB from a byte offset (None: the end of the file), and the offset after it.

    A log that is now shorter than the offset has been recreated: it is read from its beginning. Returns no bytes
    when the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if offset is None:
                return b"", size
            file.seek(offset if offset <= size else 0)
            chunk = file.read(CHUNK_BYTES)
            return chunk, file.tell()
    except OSError:
        return b"", offset or 0
