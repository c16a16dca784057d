"""Counting what happens during a run, and telling the person who waits."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from harness.model.op import INVOKE, NEMESIS, Op

PLAIN_INTERVAL_S: Final = 10.0
TERMINAL_INTERVAL_S: Final = 0.5


@dataclass(slots=True)
class Live:
    """One line of progress: rewritten on a terminal, a new one every ten seconds elsewhere."""

    total_s: float
    quiet: bool = False
    phase: str = "load"
    counts: Counter[str] = field(default_factory=Counter)
    final_polls: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    shown_at: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def event(self, op: Op) -> None:
        """Count an op; show the line when it is time."""
        if op.process == NEMESIS:
            self._nemesis(op)
        elif op.type != INVOKE:
            self.counts[op.type] += 1
            if op.extra.get("final"):
                self.phase = "final polls"
                self.final_polls += 1
        now = time.monotonic()
        interval_s = TERMINAL_INTERVAL_S if sys.stderr.isatty() else PLAIN_INTERVAL_S
        if not self.quiet and now - self.shown_at >= interval_s:
            self.shown_at = now
            self._show(now)

    def _nemesis(self, op: Op) -> None:
        fault, span = str(op.extra.get("fault", "")), op.extra.get("span")
        complete = op.extra.get("phase") == "complete"
        if op.f == "heal":
            self.phase = "healing"
        elif span == "start" and complete and isinstance(op.value, dict):
            self.faults[fault] = " ".join([fault, *op.value.get("nodes", ()), *op.value.get("clients", ())])
        elif span == "stop" and complete:
            self.faults.pop(fault, None)

    def _show(self, now: float) -> None:
        on = ", ".join(self.faults.values()) or "none"
        counts = self.counts
        line = (
            f"{now - self.began:5.0f} s of {self.total_s:.0f}  {self.phase:11}  ok {counts['ok']}  "
            f"fail {counts['fail']}  info {counts['info']}  faults on: {on}"
        )
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{line[:150]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line standing."""
        if not self.quiet and sys.stderr.isatty():
            print(file=sys.stderr, flush=True)
