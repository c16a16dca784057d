"""Writes the events of a pipeline instance to events/instance-<process>.jsonl.

Each event is written immediately, in one write(2), so a killed process loses no event.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from harness.model.errors_and_exit_codes import BadHistory


@dataclass(frozen=True, slots=True)
class Clock:
    """The start of a run, as times of the monotonic clock and of the wall clock."""

    mono_ns: int
    wall_ns: int

    @classmethod
    def of(cls, folder: Path) -> Clock:
        """Reads the start of the run from the first line of the history in a run folder. Raises BadHistory."""
        path = folder / "history" / "00000.jsonl"
        try:
            with path.open("rb") as file:
                epoch_line = orjson.loads(file.readline())
            return cls(int(epoch_line["mono_ns"]), int(epoch_line["wall_ns"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadHistory(f"{path}: no header line with the start of the run ({error})") from None


class EventLog:
    """Writes the events of one process to its file."""

    def __init__(self, folder: Path, process: int) -> None:
        self._zero_ns = Clock.of(folder).mono_ns
        path = folder / "events" / f"instance-{process}.jsonl"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def now(self) -> int:
        """Returns the nanoseconds since the start of the run."""
        return time.monotonic_ns() - self._zero_ns

    def write(self, event: Mapping[str, Any]) -> None:
        os.write(self._fd, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        os.close(self._fd)
