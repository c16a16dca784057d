"""What was read of files, kept until they change."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
# Of each file: when it was changed, its size and its number; None: there is none.
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp(*files: Path) -> Stamp:
    """Changes when one of the files does."""
    return tuple(map(_stamp, files))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Cache(Generic[T]):
    """By path. Any thread may ask; one at a time reads. As many entries as the last `keep` left."""

    def __init__(self, read: Callable[[Path], T]) -> None:
        self._read, self._lock = read, Lock()
        self._entries: dict[Path, tuple[Stamp, T]] = {}

    def get(self, path: Path, now: Stamp) -> T:
        """What stands at a path, read anew when its stamp is another one."""
        with self._lock:
            entry = self._entries.get(path)
            if entry is None or entry[0] != now:
                entry = self._entries[path] = (now, self._read(path))
            return entry[1]

    def keep(self, paths: Collection[Path]) -> None:
        """Forget all others."""
        with self._lock:
            for path in self._entries.keys() - set(paths):
                del self._entries[path]
