"""A cache of values that are computed from files. If the files change, the value is computed again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
# For each file: modification time, size and inode number; None if the file does not exist.
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp(*files: Path) -> Stamp:
    """Returns a value that changes whenever one of the files changes."""
    return tuple(map(_stamp, files))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Cache(Generic[T]):
    """A cache with one value for each path.

    Several threads may use it; only one of them computes a value at a time. An entry stays until `keep` removes it.
    """

    def __init__(self, read: Callable[[Path], T]) -> None:
        self._read, self._lock = read, Lock()
        self._entries: dict[Path, tuple[Stamp, T]] = {}

    def get(self, path: Path, now: Stamp) -> T:
        """Returns the value for a path.

        now  the present state of the files from which the value is computed (see `stamp`); if it differs from the state
             for which a value is cached, the value is computed again
        """
        with self._lock:
            entry = self._entries.get(path)
            if entry is None or entry[0] != now:
                entry = self._entries[path] = (now, self._read(path))
            return entry[1]

    def keep(self, paths: Collection[Path]) -> None:
        """Removes the entries for all paths that are not in `paths`."""
        with self._lock:
            for path in self._entries.keys() - set(paths):
                del self._entries[path]
