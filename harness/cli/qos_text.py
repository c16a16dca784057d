"""Formats the results of `harness qos`: lines for the terminal, and rows for its web page."""

from __future__ import annotations

from typing import Any, Final

from checker.qos import window_state
from checker.qos.comparison_settings import clock
from checker.qos.query import JudgedWindow, Live
from checker.qos.window_state import Totals, Window
from harness.web.qos_page import Shown

EXAMPLES: Final = 3
ROWS: Final = 200
COLUMNS: Final = ("in", "out", "missing", "duplicate", "late", "unmatched")


def line(closed: JudgedWindow) -> str:
    """Returns a line about a window that was closed or recounted, and a line with examples of its wrong records."""
    window = closed.window
    counted = "  ".join(f"{name} {n:,}" for name, n in zip(COLUMNS, window.counts, strict=True))
    again = "  (recounted)" if window.revision > 1 else ""
    alarm = "  ALARM" if wrong(window) else ""
    shown = [_example(one) for one in closed.examples[:EXAMPLES]]
    more = f"\n    {'; '.join(shown)}" if shown else ""
    return f"{clock(window.start_ms)}  {counted}{alarm}{again}{more}"


def wrong(window: Window) -> bool:
    """Returns whether records of a window are missing or duplicated."""
    return bool(window.missing or window.duplicate)


def _example(one: dict[str, Any]) -> str:
    part = f", output {one['part']}" if one["part"] > 0 else ""
    offset = "" if one["offset"] is None else f" offset {one['offset']}"
    times = f" {one['n']} times" if one["n"] > 1 else ""
    return f"{one['what']}{times}: id {one['id'][:80]}{part} ({one['place']}{offset})"


def summary(totals: Totals, pending: int) -> str:
    """Returns the totals of all windows as one line, to be printed before the verdict.

    pending  number of records that were not judged
    """
    counted = "  ".join(f"{name} {n:,}" for name, n in zip(COLUMNS, _counts(totals), strict=True))
    unjudged = f"  not judged {pending:,}" if pending else ""
    return f"{totals.windows:,} windows  {counted}{unjudged}"


def _counts(totals: Totals) -> tuple[int, ...]:
    return (totals.records_in, totals.records_out, totals.missing, totals.duplicate, totals.late, totals.unmatched)


def shown(live: Live) -> Shown:
    """Returns what the web page of `harness qos` shows now."""
    book = live.book
    verdict, why = window_state.verdict(book)
    settings = live.settings
    rows = [
        {
            "window": clock(window.start_ms),
            "start_ms": window.start_ms,
            "state": "bad" if wrong(window) else "good" if window.revision else "open",
            "pending": window.pending,
            **dict(zip(COLUMNS, window.counts, strict=True)),
        }
        for window in reversed(book.windows[-ROWS:])
    ]
    notes = [
        f"Windows of {settings.window_ms / 1000:g} s; an output may arrive up to {settings.padding_ms / 1000:g} s "
        "after the end of its window.",
        f"Watermark: {clock(book.mark_ms) if book.mark_ms > 0 else 'none yet'} UTC. "
        f"Records read: {book.records[0]:,} in, {book.records[1]:,} out.",
    ]
    if why:
        notes.append(f"{'; '.join(why).capitalize()}.")
    if book.future or book.behind:
        notes.append(
            f"{book.future:,} records had event times in the future; {book.behind:,} were older than the windows "
            "in memory."
        )
    outputs = settings.folder or ", ".join(settings.outputs)
    return Shown(
        f"{', '.join(settings.inputs)} against {outputs}",
        verdict,
        rows,
        dict(zip(COLUMNS, _counts(book.totals), strict=True)),
        notes,
    )
