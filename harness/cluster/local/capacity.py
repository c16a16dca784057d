"""Checks, before any server starts, that this machine has enough memory and disk space for a local cluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.model.errors_and_exit_codes import Missing

SERVER_BYTES: Final = 335 << 20  # resident set of a busy broker with a 400 MB heap
DISK_BYTES: Final = 500 << 20
_MEMORY: Final = Path("/proc/meminfo")


def available_bytes(path: Path = _MEMORY) -> int | None:
    """Returns how many bytes of memory are available to programs; None if the system does not report it.

    path  /proc/meminfo, or a file in its format
    """
    try:
        fields: Mapping[str, str] = {
            name: value for name, _, value in (line.partition(":") for line in path.read_text().splitlines())
        }
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None


def free_bytes(folder: Path) -> int:
    """Returns the free space of the disk that contains `folder`. The folder need not exist yet."""
    present = folder.absolute()
    while not present.exists():
        present = present.parent
    return shutil.disk_usage(present).free


def require(servers: int, folder: Path) -> None:
    """Raises Missing if there is not enough memory or disk space for `servers` servers.

    folder  the folder of the servers' data
    """
    memory, needed = available_bytes(), servers * SERVER_BYTES
    if memory is not None and memory < needed:
        raise Missing(
            f"not enough memory: {servers} servers need {needed >> 20} MB, but only {memory >> 20} MB are "
            "available: close other programs, or run fewer brokers (--nodes 1)"
        )
    disk = free_bytes(folder)
    if disk < DISK_BYTES:
        raise Missing(
            f"not enough disk space: a cluster needs {DISK_BYTES >> 20} MB, but only {disk >> 20} MB are free in "
            f"{folder.absolute()}. Free some space, or choose a folder on another disk (--runs)"
        )
