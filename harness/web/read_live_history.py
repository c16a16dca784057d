"""Reads the history of a run in progress. Each read continues where the previous one ended."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

import orjson

from harness.model import op_json
from harness.model.op import NEMESIS, OK, TYPES, Op
from harness.report.progress import Progress
from harness.web.first_signs import First

PIECE_BYTES: Final = 32 << 20  # bytes per read, which takes about a quarter of a second
RUNS_KEPT: Final = 8


@dataclass(slots=True)
class Reading:
    """What was found in the part of a history that has been read so far.

    whole    whether everything that the history contained at the last read has been read
    skipped  number of lines that are not operations
    """

    progress: Progress = field(default_factory=Progress)
    first: First = field(default_factory=First)
    whole: bool = False
    skipped: int = 0

    def add(self, op: Op) -> None:
        """Adds an operation to what was found."""
        self.progress.add(op)
        if op.type == OK and op.process != NEMESIS:
            self.first.add(op)


class Watch:
    """Reads the history of one run in progress, piece by piece."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "history"
        self._segment, self._offset = 0, 0
        self.reading = Reading()

    def read(self, limit: int = PIECE_BYTES) -> Reading:
        """Reads at most `limit` further bytes, and returns what was found so far. Only complete lines are processed."""
        while limit > 0:
            data = self._piece(limit)
            end = data.rfind(b"\n") + 1
            for line in data[:end].splitlines():
                self._line(line)
            self._offset += end
            if not end and len(data) == limit:  # an incomplete line, which the next call reads in full
                break
            limit -= len(data)
            if not end:
                following = self._folder / f"{self._segment + 1:05d}.jsonl"
                if not following.is_file():
                    self.reading.whole = True
                    return self.reading
                self._segment, self._offset = self._segment + 1, 0
        self.reading.whole = False
        return self.reading

    def _piece(self, limit: int) -> bytes:
        path = self._folder / f"{self._segment:05d}.jsonl"
        if not path.is_file():
            return b""
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                return file.read(limit)
        except OSError:
            return b""

    def _line(self, line: bytes) -> None:
        try:
            data = orjson.loads(line)
            if "schema" in data:
                return
            op = op_json.from_data(data)
            if type(op.time_ns) is not int or op.type not in TYPES or not isinstance(op.f, str):
                raise TypeError(op.type)
            self.reading.add(op)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.reading.skipped += 1


class Watches:
    """Reads the histories of several runs in progress.

    Only the RUNS_KEPT runs that were viewed last are remembered; other histories are read from the beginning again.
    Several threads may use it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._watches: OrderedDict[Path, Watch] = OrderedDict()

    def look(self, folder: Path) -> Reading:
        """Continues to read the history of a run, and returns what was found so far."""
        with self._lock:
            watch = self._watches.pop(folder, None) or Watch(folder)
            self._watches[folder] = watch
            while len(self._watches) > RUNS_KEPT:
                self._watches.popitem(last=False)
            return watch.read()
