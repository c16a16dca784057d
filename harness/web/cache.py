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
        self._held: dict[Path, tuple[Stamp, T]] = {}

    def get(self, path: Path, now: Stamp) -> T:
        """What stands at a path, read anew when its stamp is another one."""
        with self._lock:
            held = self._held.get(path)
            if held is None or held[0] != now:
                held = self._held[path] = (now, self._read(path))
            return held[1]

    def keep(self, paths: Collection[Path]) -> None:
        """Forget all others."""
        with self._lock:
            for path in self._held.keys() - set(paths):
                del self._held[path]
