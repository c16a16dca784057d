"""Writes a run folder as a ZIP archive, piece by piece. The archive is never complete in memory or on disk."""

from __future__ import annotations

import os
import re
import time
import zipfile
from pathlib import Path
from typing import Final, Protocol

from harness.web import paths, run_files

EARLIEST, LATEST = 315_532_800, 4_354_819_198  # the times that an archive can store: 1980 to 2107
PIECE: Final = 1 << 18
PACKED: Final = frozenset({".parquet", ".png", ".gz", ".zip"})
# Characters that are invalid in file names on other systems, or would lead out of the folder there.
ODD: Final = re.compile(r'[\\:*?"<>|\x00-\x1f\x7f\ud800-\udfff]')


class Out(Protocol):
    """A receiver of bytes."""

    def write(self, data: bytes, /) -> object: ...


class _Stream:
    """The stream to which zipfile writes.

    It cannot seek, so zipfile writes the size of each file after its content.
    """

    def __init__(self, out: Out) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        self._out.write(data)
        return len(data)

    def flush(self) -> None:
        pass


def name_of(names: tuple[str, ...]) -> str:
    """Returns the archive path of a file of the run. `names`: the parts of the file's path in the run folder."""
    return "/".join(ODD.sub("_", name) for name in names)


def write(folder: Path, out: Out) -> None:
    """Writes all regular files of a run to `out`, with their present content. Raises OSError if this fails."""
    top = name_of((folder.name,))
    taken: set[str] = set()
    with zipfile.ZipFile(_Stream(out), "w", compresslevel=1) as archive:  # type: ignore[call-overload]
        for file in run_files.walk(folder):
            path = paths.inside(folder, file.names)
            name = name_of(file.names)
            while name.casefold() in taken:
                name += "_"
            taken.add(name.casefold())
            if path is None:
                continue
            try:
                content, size = paths.opened(path)
            except OSError:  # removed in the meantime, or not readable
                continue
            with content:
                changed = min(max(os.fstat(content.fileno()).st_mtime, EARLIEST), LATEST)
                entry = zipfile.ZipInfo(f"{top}/{name}", time.gmtime(changed)[:6])
                entry.compress_type = zipfile.ZIP_STORED if path.suffix in PACKED else zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                with archive.open(entry, "w", force_zip64=size >= 1 << 31) as part:
                    while size > 0 and (data := content.read(min(PIECE, size))):
                        part.write(data)
                        size -= len(data)
