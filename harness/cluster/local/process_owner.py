"""Processes of this machine, told from all others that get their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def owner(pid: int) -> str:
    """BOOT/PID/START of a process; empty when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else f"{_BOOT.read_text().strip()}/{pid}/{fields[19]}"
    except OSError:
        return ""


def pid_of(owned_by: str) -> int:
    """The number of an owner; 0 for what is none."""
    number = owned_by.split("/")[1:2]
    return int(number[0]) if number and number[0].isdigit() else 0


def in_use(owned_by: str) -> bool:
    """Whether that very process lives."""
    return bool(pid_of(owned_by)) and owner(pid_of(owned_by)) == owned_by
