"""Whether there is memory and disk for the servers of a local cluster, before any is started."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.model.errors_and_exit_codes import Missing

SERVER_BYTES: Final = 335 << 20  # resident, of a broker with a heap of 400 MB that is in use
DISK_BYTES: Final = 500 << 20
_MEMORY: Final = Path("/proc/meminfo")


def available_bytes(path: Path = _MEMORY) -> int | None:
    """Memory that programs could have; None where the system does not say."""
    try:
        fields: Mapping[str, str] = {
            name: value for name, _, value in (line.partition(":") for line in path.read_text().splitlines())
        }
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None


def free_bytes(folder: Path) -> int:
    """Room on the disk that a folder is on, or would be."""
    present = folder.absolute()
    while not present.exists():
        present = present.parent
    return shutil.disk_usage(present).free


def require(servers: int, folder: Path) -> None:
    """Raises Missing when so many servers do not fit into memory, or their data onto the disk of `folder`."""
    memory, needed = available_bytes(), servers * SERVER_BYTES
    if memory is not None and memory < needed:
        raise Missing(
            f"not enough memory: {servers} servers take {needed >> 20} MB, and {memory >> 20} MB are "
            "available: end other programs, or run fewer brokers (--nodes 1)"
        )
    disk = free_bytes(folder)
    if disk < DISK_BYTES:
        raise Missing(
            f"not enough disk: a cluster takes {DISK_BYTES >> 20} MB, and {disk >> 20} MB are free in "
            f"{folder.absolute()}: make room, or name a folder on another disk (--runs)"
        )
