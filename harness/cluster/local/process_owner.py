"""Identifies a process of this machine uniquely, even after its pid has been reused.

The text that identifies a process is called its owner text: other modules store it to mark what the process owns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def owner(pid: int) -> str:
    """Returns the owner text of a process, BOOT/PID/START (boot id, pid, start time); "" if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else f"{_BOOT.read_text().strip()}/{pid}/{fields[19]}"
    except OSError:
        return ""


def pid_of(owned_by: str) -> int:
    """Returns the pid in an owner text; 0 if the text is malformed."""
    number = owned_by.split("/")[1:2]
    return int(number[0]) if number and number[0].isdigit() else 0


def in_use(owned_by: str) -> bool:
    """Returns whether the process with this owner text is still running."""
    return bool(pid_of(owned_by)) and owner(pid_of(owned_by)) == owned_by
