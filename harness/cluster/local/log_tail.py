"""Reads a log file while a server appends to it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 1 << 20


def tail(path: Path, offset: int | None) -> tuple[bytes, int]:
    """Returns at most 1 MiB of a log file, and the byte offset after it.

    Reading starts at byte `offset`; None: at the end of the file. A file that is shorter than `offset` has been
    recreated, and is read from its beginning. If the file cannot be read, returns no bytes.
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
