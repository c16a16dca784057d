"""events/instance-<process>.jsonl: one write(2) per event, as it happens, so a killed process loses none."""

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
    """When the run began, on the monotonic clock and on the wall's: what the history's first line says."""

    mono_ns: int
    wall_ns: int

    @classmethod
    def of(cls, folder: Path) -> Clock:
        """Raises BadHistory."""
        path = folder / "history" / "00000.jsonl"
        try:
            with path.open("rb") as file:
                epoch_line = orjson.loads(file.readline())
            return cls(int(epoch_line["mono_ns"]), int(epoch_line["wall_ns"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadHistory(f"{path}: no line that says when the run began ({error})") from None


class EventLog:
    """The events of one process."""

    def __init__(self, folder: Path, process: int) -> None:
        self._zero_ns = Clock.of(folder).mono_ns
        path = folder / "events" / f"instance-{process}.jsonl"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def now(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self._zero_ns

    def write(self, event: Mapping[str, Any]) -> None:
        os.write(self._fd, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        os.close(self._fd)
