"""Converts the paths of requests to files, and files to links. No path leads out of the folder that is served.

File names may contain any bytes. In a link, each name is one percent-encoded segment.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote, unquote_to_bytes

TARGET_MAX: Final = 8192  # characters of a path with its query
NOT_NAMES: Final = frozenset({"", ".", ".."})
READ: Final = (
    "plan.yaml",
    "results.json",
    "owner",
    "history",
    "tables",
    "results",
    "events",
    "logs",
    "plots",
)
RUN_FILES: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def segment(name: str) -> str:
    """Returns a file name as one percent-encoded segment of a link."""
    return quote(os.fsencode(name), safe="")


def link(*names: str) -> str:
    """Returns a relative link made of these file names."""
    return "/".join(map(segment, names))


def parts(target: str) -> tuple[str, ...] | None:
    """Returns the names in the path of a request; None if the path is invalid.

    If the path ends with a slash, the last name is empty.
    """
    path = target.partition("?")[0]
    if not path.startswith("/") or len(target) > TARGET_MAX:
        return None
    try:
        names = tuple(os.fsdecode(unquote_to_bytes(part.encode("ascii"))) for part in path[1:].split("/"))
    except UnicodeEncodeError:
        return None
    return names if all(map(_is_name, names[:-1])) and (_is_name(names[-1]) or names[-1] == "") else None


def _is_name(name: str) -> bool:
    return name not in NOT_NAMES and "/" not in name and "\0" not in name


def folder_of(runs: Path, name: str) -> Path | None:
    """Returns the folder with this name in the folder of runs; None if there is none.

    A symbolic link is followed only if its target is also directly in the folder of runs.
    """
    if not _is_name(name):
        return None
    try:
        found = (runs / name).resolve(strict=True)
        return found if found.parent == runs.resolve(strict=True) and found.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
        return None


def inside(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Returns the path of a regular file in a folder. Links are followed.

    Returns None if there is no such file, or if the file is outside the folder.
    """
    if not names or not all(map(_is_name, names)):
        return None
    try:
        root = folder.resolve(strict=True)
        found = root.joinpath(*names).resolve(strict=True)
        return found if found.is_relative_to(root) and stat.S_ISREG(found.stat().st_mode) else None
    except (OSError, ValueError, RuntimeError):
        return None


def leaving(folder: Path) -> str:
    """Returns the first link found that leads out of the run folder, or "" if there is none.

    Only the files and folders that the server reads for its pages are searched.
    """
    waiting = [folder / name for name in READ]
    while waiting:
        path = waiting.pop()
        if path.is_symlink():
            if not _stays(folder, path):
                return str(path.relative_to(folder))
        elif path.is_dir():
            try:
                with os.scandir(path) as entries:
                    waiting += [Path(entry) for entry in entries if entry.is_symlink() or entry.is_dir()]
            except OSError:
                continue
    return ""


def _stays(folder: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except (OSError, RuntimeError):
        return False


def opened(path: Path) -> tuple[BinaryIO, int]:
    """Opens a file that `inside` found, and returns the file and its size.

    Raises OSError if it cannot be opened, or if it is not a regular file any more.
    """
    descriptor = os.open(path, RUN_FILES)
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(f"{path}: not a regular file")
    return os.fdopen(descriptor, "rb"), state.st_size
