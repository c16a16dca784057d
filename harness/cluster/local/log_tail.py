"""Reading a log while it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 1 << 20


def tail(path: Path, offset: int | None) -> tuple[bytes, int]:
    """At most 1 MiB from a byte offset (None: from the end), and the offset after it.

    A log that has become shorter was begun anew, and is read from its beginning. Nothing where there is none.
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
