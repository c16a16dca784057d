"""A run while it goes on: its history is read on from where it was read to, a piece at a time."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

import orjson

from harness.model import codec
from harness.model.op import INVOKE, NEMESIS, OK, TYPES, Op
from harness.web.first import First

PIECE_BYTES: Final = 32 << 20  # read at once, in a quarter of a second
SECONDS_MAX: Final = 100_000
KINDS_MAX: Final = 200
FAULTS_KEPT: Final = 30
RUNS_KEPT: Final = 8


@dataclass(slots=True)
class Progress:
    """What was read of a history so far. Times are nanoseconds since the run began.

    by_f      f -> outcome -> how many
    rates     outcome -> second -> completions in it
    on        faults that are on: name -> name and what it hit
    faults    the last of what the nemesis did: (time, what)
    whole     everything that was there has been read
    skipped   lines that are no ops
    """

    end_ns: int = 0
    phase: str = "load"
    by_f: dict[str, Counter[str]] = field(default_factory=dict)
    rates: dict[str, Counter[int]] = field(default_factory=dict)
    on: dict[str, str] = field(default_factory=dict)
    faults: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=FAULTS_KEPT))
    first: First = field(default_factory=First)
    whole: bool = False
    skipped: int = 0

    def add(self, op: Op) -> None:
        """Count an op."""
        self.end_ns = max(self.end_ns, op.time_ns)
        if op.process == NEMESIS:
            self._nemesis(op)
        elif op.type != INVOKE:
            if op.f in self.by_f or len(self.by_f) < KINDS_MAX:
                self.by_f.setdefault(op.f, Counter())[op.type] += 1
            second = op.time_ns // 1_000_000_000
            if 0 <= second < SECONDS_MAX:
                self.rates.setdefault(op.type, Counter())[second] += 1
            if op.extra.get("final"):
                self.phase = "final polls"
            if op.type == OK:
                self.first.add(op)

    def _nemesis(self, op: Op) -> None:
        fault, span = str(op.extra.get("fault") or ""), op.extra.get("span")
        complete = op.extra.get("phase") == "complete"
        if op.f == "heal":
            self.phase = "healing"
        if not fault or not complete:
            return
        label = " ".join([fault, *_hit(op.value)])
        if span == "start":
            self.on[fault] = label
        elif span == "stop":
            self.on.pop(fault, None)
        effect = isinstance(op.value, Mapping) and op.value.get("took_effect") is False
        self.faults.append((op.time_ns, f"{op.f}: {label}{' (no effect)' if effect else ''}"))


def _hit(value: Any) -> list[str]:
    held = [value.get(name) for name in ("nodes", "clients")] if isinstance(value, Mapping) else []
    return [str(one) for names in held if isinstance(names, list) for one in names]


class Watch:
    """The history of one run, read on each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "history"
        self._segment, self._offset = 0, 0
        self.progress = Progress()

    def read(self, limit: int = PIECE_BYTES) -> Progress:
        """Read at most `limit` bytes more, whole lines only."""
        while limit > 0:
            data = self._piece(limit)
            end = data.rfind(b"\n") + 1
            for line in data[:end].splitlines():
                self._line(line)
            self._offset += end
            if not end and len(data) == limit:  # a part of a line: the rest of it comes with the next look
                break
            limit -= len(data)
            if not end:
                following = self._folder / f"{self._segment + 1:05d}.jsonl"
                if not following.is_file():
                    self.progress.whole = True
                    return self.progress
                self._segment, self._offset = self._segment + 1, 0
        self.progress.whole = False
        return self.progress

    def _piece(self, limit: int) -> bytes:
        try:
            with (self._folder / f"{self._segment:05d}.jsonl").open("rb") as file:
                file.seek(self._offset)
                return file.read(limit)
        except OSError:
            return b""

    def _line(self, line: bytes) -> None:
        try:
            data = orjson.loads(line)
            if "schema" in data:
                return
            op = codec.from_data(data)
            if type(op.time_ns) is not int or op.type not in TYPES or not isinstance(op.f, str):
                raise TypeError(op.type)
            self.progress.add(op)
        except (ValueError, LookupError, TypeError, AttributeError):
            self.progress.skipped += 1


class Watches:
    """The runs that somebody looks at, the last few of them. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[Path, Watch] = OrderedDict()

    def look(self, folder: Path) -> Progress:
        """What there is of a run by now."""
        with self._lock:
            watch = self._held.pop(folder, None) or Watch(folder)
            self._held[folder] = watch
            while len(self._held) > RUNS_KEPT:
                self._held.popitem(last=False)
            return watch.read()
