"""Shows the progress of a run: a panel on a terminal, periodic lines elsewhere.

The thread that runs operations only counts them. Another thread draws, at most four times a second. The terminal stays
usable in whatever way the run ends, because its mode is not switched and the cursor stays visible. If the terminal
disappears, only the drawing ends, not the run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console
from rich.live import Live as Drawing

from harness.model.op import FAIL, INFO, NEMESIS, OK, Op
from harness.report.progress import SECOND_NS, Progress, Unread
from harness.run.progress_panel import Figures, line, panel
from nemesis.schedule.upcoming import Ahead, Coming

LINE_S: Final = 10.0
DRAW_S: Final = 0.25
JOIN_S: Final = 2.0
HISTORY_S: Final = 60
COMING_SHOWN: Final = 2

log = logging.getLogger("harness")


class Live:
    """Counts the ops of a run, and displays the figures inside the context `showing`.

    total_s  duration of the load in seconds
    zero_ns  start of the run on the monotonic clock
    title    title of the panel
    ahead    upcoming faults
    """

    def __init__(self, total_s: float, zero_ns: int, title: str = "", ahead: Ahead | None = None) -> None:
        self._total_s, self._zero_ns, self._title, self._ahead = total_s, zero_ns, title, ahead
        self.progress, self.unread = Progress(), Unread()
        self._note = ""
        self._ended = threading.Event()

    def event(self, op: Op) -> None:
        """Counts an op."""
        self.progress.add(op)
        if op.process == NEMESIS:
            if self._ahead is not None:
                self._ahead.see(op)
        else:
            self.unread.add(op)

    def note(self, text: str) -> None:
        """Sets a note, which the display then shows."""
        self._note = text

    def figures(self, now_ns: int | None = None) -> Figures:
        """Returns the figures as of a given time.

        now_ns  the time, in ns since the start of the run; None: now
        """
        now_ns = time.monotonic_ns() - self._zero_ns if now_ns is None else now_ns
        progress, unread, now_s = self.progress, self.unread, now_ns / SECOND_NS
        oks: Mapping[int, int] = progress.rates.get(OK, {})
        second = now_ns // SECOND_NS
        lag_ns = unread.lag_ns(now_ns)
        since = progress.since
        return Figures(
            title=self._title,
            phase=progress.phase,
            now_s=now_s,
            total_s=self._total_s,
            counts={outcome: progress.count(outcome) for outcome in (OK, FAIL, INFO)},
            rate=progress.recent(OK, now_ns),
            rates=[oks.get(each, 0) for each in range(max(0, second - HISTORY_S), second)],
            unseen=unread.size if unread.located and not unread.full else None,
            lag_s=None if lag_ns is None else lag_ns / SECOND_NS,
            on=[(what, now_s - since[name] / SECOND_NS) for name, what in list(progress.on.items())],
            coming=[] if self._ahead is None else _coming(self._ahead.coming(now_s), now_s),
            note=self._note,
        )

    @contextlib.contextmanager
    def showing(self, quiet: bool = False) -> Iterator[None]:
        """Displays the figures until the context ends."""
        if quiet:
            yield
            return
        console = terminal()
        thread = threading.Thread(target=self._show, args=(console,), name="live", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(JOIN_S)  # after Ctrl-S, a write to the terminal may block for any length of time

    def _show(self, console: Console | None) -> None:
        try:
            if console is not None:
                self._panel(console)
                return
            while not self._ended.wait(LINE_S):
                print(line(self.figures()), file=sys.stderr, flush=True)
            print(line(self.figures()), file=sys.stderr, flush=True)
        except Exception:  # a failure of the display must not end the run
            log.exception("the progress display failed; the run continues without it")

    def _panel(self, console: Console) -> None:
        drawing = Drawing(
            get_renderable=lambda: panel(self.figures(), console),
            console=console,
            auto_refresh=False,
            transient=True,
            vertical_overflow="crop",
            redirect_stderr=sys.stderr.isatty(),
        )
        with drawing:
            console.show_cursor(True)  # so that a killed process leaves it visible
            while not self._ended.wait(DRAW_S):
                if in_front(console):
                    drawing.refresh()
        console.print(line(self.figures()), highlight=False, soft_wrap=True)


def _coming(faults: list[Coming], now_s: float) -> list[tuple[str, str]]:
    coming = []
    for one in faults[:COMING_SHOWN]:
        wait_s = max(0.0, one.at_s - now_s)
        when = f"in {wait_s:.0f} s" if not one.when else f"at {one.when}"
        coming.append((one.fault, when))
    return coming


def terminal() -> Console | None:
    """Returns the console on which to draw, or None if standard output is not a terminal whose cursor can be moved."""
    if not sys.stdout.isatty() or not os.environ.get("TERM"):
        return None
    console = Console(file=sys.stdout)
    return console if console.is_terminal and console.is_interactive and not console.is_dumb_terminal else None


def in_front(console: Console) -> bool:
    """Returns whether this process runs in the terminal's foreground. A background job must not draw."""
    try:
        return os.tcgetpgrp(console.file.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True
