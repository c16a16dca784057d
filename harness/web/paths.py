"""From what a browser asks for to a file, and back: no path leads out of the folder that it is meant for.

Names on disk may be any bytes. In a link each is one percent-encoded segment.
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
    """A name as one segment of a link; it can be read as nothing else."""
    return quote(os.fsencode(name), safe="")


def link(*names: str) -> str:
    """A relative link of names."""
    return "/".join(map(segment, names))


def parts(target: str) -> tuple[str, ...] | None:
    """The names in an absolute path of a request; the last is empty for a folder. None: not a path here."""
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
    """The folder of that name directly in the folder of runs; links lead to others in there, at most."""
    if not _is_name(name):
        return None
    try:
        found = (runs / name).resolve(strict=True)
        return found if found.parent == runs.resolve(strict=True) and found.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return None


def inside(folder: Path, names: tuple[str, ...]) -> Path | None:
    """A plain file in a folder, links followed; None where there is none, or it is not in the folder."""
    if not names or not all(map(_is_name, names)):
        return None
    try:
        root = folder.resolve(strict=True)
        found = root.joinpath(*names).resolve(strict=True)
        return found if found.is_relative_to(root) and stat.S_ISREG(found.stat().st_mode) else None
    except (OSError, ValueError, RuntimeError):
        return None


def leaving(folder: Path) -> str:
    """What of that which pages read of a run is a link out of its folder; empty: nothing is."""
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
    """A plain file that `inside` found, and its size now. Raises OSError, also where it is none any more."""
    descriptor = os.open(path, RUN_FILES)
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(f"{path}: not a file")
    return os.fdopen(descriptor, "rb"), state.st_size
