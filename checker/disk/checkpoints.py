"""Parses the small text files next to segments: checkpoints of offsets and of leader epochs, and properties.

A checkpoint has a line with the version (0), a line with the number of entries, and a line for each entry: `topic
partition offset`, or `epoch start offset` in leader-epoch-checkpoint. Source: Kafka's server-common module
(CheckpointFile), KIP-101; KIP-516 for partition.metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from harness.protocol.flaws import Flaw

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
EPOCHS: Final = "leader-epoch-checkpoint"
CLEAN: Final = ".kafka_cleanshutdown"
META: Final = "meta.properties"
PARTITION: Final = "partition.metadata"
OF_OFFSETS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED)
LINES_MAX: Final = 1_000_000

T = TypeVar("T")
Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Epoch:
    """A leader epoch and the first offset written in it."""

    epoch: int
    start: int


def offsets(data: bytes, name: str) -> tuple[Offsets, tuple[Flaw, ...]]:
    """Parses a checkpoint of offsets. Returns ({(topic, partition): offset}, the flaws).

    Invalid lines are skipped and reported as flaws. `name` is the file's name in the flaws.
    """
    rows, flaws = _entries(data, name, _offset)
    return dict(rows), flaws


def epochs(data: bytes, name: str) -> tuple[tuple[Epoch, ...], tuple[Flaw, ...]]:
    """Parses a checkpoint of leader epochs. Returns (the epochs, the flaws).

    If an epoch is not higher than the one before it, or starts at a lower offset, this is a flaw, and the result ends
    before that epoch. `name` is the file's name in the flaws.
    """
    rows, flaws = _entries(data, name, _epoch)
    for number, (before, after) in enumerate(pairwise(rows), 1):
        if after.epoch <= before.epoch or after.start < before.start:
            what = f"epoch {after.epoch} from offset {after.start} follows {before.epoch} from {before.start}"
            return tuple(rows[:number]), (*flaws, Flaw(name, None, f"line {number + 3}: {what}"))
    return tuple(rows), flaws


def properties(data: bytes, name: str) -> tuple[dict[str, str], tuple[Flaw, ...]]:
    """Parses meta.properties (lines `setting=value`) or partition.metadata (lines `setting: value`).

    Returns ({setting: value}, the flaws). The parameter `name` is the file's name in the flaws.
    """
    found, flaws = {}, []
    for number, line in enumerate(_lines(data), 1):
        if not line.strip() or line.startswith("#"):
            continue
        mark = "=" if "=" in line else ":"
        key, separator, value = line.partition(mark)
        if separator and key.strip().isprintable():
            found[key.strip()] = value.strip()
        else:
            flaws.append(Flaw(name, None, f"line {number} is not a setting: {_shown(line)}"))
    if not found and not flaws:
        flaws.append(Flaw(name, None, "empty"))
    return found, tuple(flaws)


def _entries(data: bytes, name: str, parse: Callable[[str], T | None]) -> tuple[list[T], tuple[Flaw, ...]]:
    if not data:
        return [], ()  # freshly created: nothing has been written to it yet
    lines = _lines(data)
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2 or _number(lines[0]) != 0 or _number(lines[1]) is None:
        head = " / ".join(_shown(line) for line in lines[:2]) or "nothing"
        return [], (Flaw(name, 0, f"it must start with version 0 and the number of entries, not {head}"),)
    found, flaws = [], []
    for number, line in enumerate(lines[2:], 3):
        entry = parse(line)
        if entry is None:
            flaws.append(Flaw(name, None, f"line {number} is not an entry: {_shown(line)}"))
        else:
            found.append(entry)
    if _number(lines[1]) != len(lines) - 2:
        flaws.append(Flaw(name, None, f"it should have {_shown(lines[1])} entries but has {len(lines) - 2}"))
    return found, tuple(flaws)


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return text.split("\n", LINES_MAX)[:LINES_MAX]


def _offset(line: str) -> tuple[tuple[str, int], int] | None:
    parts = line.rsplit(" ", 2)
    numbers = [_number(part) for part in parts[1:]]
    if len(parts) != 3 or not parts[0] or numbers[0] is None or numbers[1] is None:
        return None
    return (parts[0], numbers[0]), numbers[1]


def _epoch(line: str) -> Epoch | None:
    parts = [_number(part) for part in line.split(" ")]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    return Epoch(parts[0], parts[1])


def _number(text: str) -> int | None:
    """Returns the text as a number; None unless it consists of 1 to 19 digits."""
    return int(text) if len(text) <= 19 and text.isascii() and text.isdecimal() else None


def _shown(line: str) -> str:
    return repr(line[:60])
