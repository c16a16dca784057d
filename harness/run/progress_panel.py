"""Draws the panel of a running test from its figures. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import ASCII, ROUNDED
from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.model.op import FAIL, INFO, OK

WIDE: Final = 84
NARROW: Final = 48  # columns; a narrower or lower terminal shows one line only
LOW: Final = 16
WRAPPED: Final = ("faults on", "next")
FAULTS_SHOWN: Final = 3
BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that a panel shows. Times are in seconds.

    title    title of the panel
    phase    phase of the run
    now_s    time since the start of the run
    total_s  length of the load
    counts   number of completions by outcome
    rate     recent ok completions per second
    rates    ok completions in each of the last seconds, oldest first
    unseen   number of acknowledged records that no consumer has polled yet; None if unknown
    lag_s    how long the oldest unseen record has waited; None if unknown
    on       (fault and its targets, how long it has lasted) for each active fault
    coming   (fault, when it starts) for each of the next faults
    note     a message that the panel shows below the figures
    """

    title: str
    phase: str
    now_s: float
    total_s: float
    counts: dict[str, int]
    rate: float
    rates: Sequence[int] = ()
    unseen: int | None = None
    lag_s: float | None = None
    on: Sequence[tuple[str, float]] = ()
    coming: Sequence[tuple[str, str]] = ()
    note: str = ""


def line(of: Figures) -> str:
    """Returns the figures as one line, for output that is not a terminal or for a small terminal."""
    faults = ", ".join(name for name, _ in of.on) or "none"
    counted = "  ".join(f"{outcome} {of.counts.get(outcome, 0)}" for outcome in (OK, FAIL, INFO))
    text = f"{of.now_s:5.0f} s of {of.total_s:.0f}  {of.phase:11}  {counted}  faults on: {faults}"
    return f"{text}  {of.note}" if of.note else text


def panel(of: Figures, console: Console) -> RenderableType:
    """Returns the panel, or one line if the terminal is too small for the panel."""
    size = console.size
    if size.width < NARROW or size.height < LOW:
        text = f"{of.now_s:.0f} s {of.phase}  ok {of.counts.get(OK, 0):,}"
        short = Text(text, no_wrap=True, overflow="crop")
        for outcome, style in ((FAIL, "magenta"), (INFO, "yellow")):
            short.append(f"  {outcome} {of.counts.get(outcome, 0):,}", style)
        return short
    plain = not console.encoding.lower().startswith("utf")
    wide = min(size.width, WIDE)
    cut: OverflowMethod = "crop" if plain else "ellipsis"
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", min_width=10, no_wrap=True)
    grid.add_column()
    for name, value in _rows(of, plain, wide - 16):
        if name not in WRAPPED and isinstance(value, Text):
            value.no_wrap, value.overflow = True, cut
        grid.add_row(name, value)
    body = Group(grid, Text(of.note, "bold yellow")) if of.note else grid
    title = Text(of.title)
    title.truncate(wide - 6, overflow="crop")
    box = ASCII if plain else ROUNDED
    return Panel(body, box=box, title=title, title_align="left", width=wide, border_style="dim")


def _rows(of: Figures, plain: bool, wide: int) -> list[tuple[str, RenderableType]]:
    phase: RenderableType = Text(f"{of.phase}, {of.now_s:.0f} s", "bold")
    if of.phase == "load":
        elapsed = Text(f"load, {of.now_s:.0f} s of {of.total_s:.0f}", "bold")
        done = min(of.now_s, of.total_s)
        bar = ProgressBar(max(of.total_s, 0.001), done, width=max(8, wide - 30), complete_style="cyan")
        phase = Table.grid(padding=(0, 2))
        phase.add_row(elapsed, bar)
    counts = Text(f"ok {of.counts.get(OK, 0):,}", "green")
    counts.append(f"   fail {of.counts.get(FAIL, 0):,}", "magenta" if of.counts.get(FAIL) else "dim")
    counts.append(f"   info {of.counts.get(INFO, 0):,}", "yellow" if of.counts.get(INFO) else "dim")
    rate = Text(f"{of.rate:,.0f} ok a second  ")
    if not plain:
        rate.append(_bars(of.rates[-max(0, wide - 24) :]), "cyan")
    rows: list[tuple[str, RenderableType]] = [
        ("phase", phase),
        ("operations", counts),
        ("rate", rate),
        ("unseen", _unseen(of)),
    ]
    rows.append(("faults on", _faults(of)))
    if of.phase == "load":
        rows.append(("next", Text("; ".join(f"{name} {when}" for name, when in of.coming) or "none")))
    return rows


def _bars(rates: Sequence[int]) -> str:
    top = max(rates, default=0) or 1
    return "".join(BARS[min(len(BARS) - 1, rate * len(BARS) // (top + 1))] for rate in rates)


def _unseen(of: Figures) -> Text:
    if of.unseen is None:
        return Text("unknown", "dim")
    if not of.unseen:
        return Text("0", "green")
    lag = f", the oldest for {of.lag_s:.1f} s" if of.lag_s is not None else ""
    return Text(f"{of.unseen:,} acknowledged{lag}")


def _faults(of: Figures) -> Text:
    if not of.on:
        return Text("none", "dim")
    shown = "; ".join(f"{name}, for {for_s:.0f} s" for name, for_s in of.on[:FAULTS_SHOWN])
    more = len(of.on) - FAULTS_SHOWN
    return Text(f"{shown}; and {more} more" if more > 0 else shown, "bold red")
