"""Draws faults on a plot: a tinted background while a fault is active, and a labelled bar above the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from harness.stored.fault_spans import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Tints of faults. They may be faint, because lanes and labels distinguish the faults too.
COLOURS: Final = ("#B0455A", "#3E7CB1", "#6B8E23", "#8E5EA2", "#C98A1B", "#4C9A8F")
LANES_MAX: Final = 6
LANE: Final = 0.044  # height of a lane, as a fraction of the figure's height
CHARACTER: Final = 0.0067  # a generous width of a label's character, as a fraction of the axes' width
SHORTEST: Final = 0.0015  # smallest width of a bar, as a fraction of the axes' width, so that it is visible
PIXELS: Final = 900

Lanes = Mapping[str, Sequence[Span]]


def lanes(spans: Sequence[Span]) -> dict[str, list[Span]]:
    """Groups faults by name, in the order in which each name first occurs. On a plot, each group has a lane of its own.

    If there are more than LANES_MAX names, the last lane contains all the remaining faults.
    """
    found: dict[str, list[Span]] = {}
    for span in spans:
        name = span.fault
        if name not in found and len(found) >= LANES_MAX:
            name = list(found)[-1]
        found.setdefault(name, []).append(span)
    return found


def height(by_fault: Lanes) -> float:
    """Returns the space that the lanes need above the axes, as a fraction of the figure's height."""
    return LANE * len(by_fault) + (0.012 if by_fault else 0.0)


def colour(names: Sequence[str], name: str) -> str:
    """Returns the colour of a fault. `names` lists all faults of the plot."""
    return COLOURS[names.index(name) % len(COLOURS)]


def _extent(span: Span, end_s: float) -> tuple[float, float]:
    begin = span.begin_ns / 1e9
    end = end_s if span.end_ns is None else span.end_ns / 1e9
    return begin, max(end - begin, SHORTEST * end_s)


def shade(ax: Axes, spans: Sequence[Span], end_s: float) -> None:
    """Tints the background of a plot wherever a fault was active."""
    by_fault = lanes(spans)
    names = list(by_fault)
    for name, mine in by_fault.items():
        for begin, width in merged([_extent(span, end_s) for span in mine], end_s / PIXELS):
            ax.axvspan(begin, begin + width, facecolor=colour(names, name), alpha=0.10, linewidth=0, zorder=0.5)


def merged(extents: Sequence[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Merges intervals (begin, width) that are at most `gap` apart, because a screen cannot show smaller gaps."""
    joined: list[tuple[float, float]] = []
    for begin, width in sorted(extents):
        if joined and begin <= joined[-1][0] + joined[-1][1] + gap:
            first, old = joined[-1]
            joined[-1] = (first, max(old, begin + width - first))
        else:
            joined.append((begin, width))
    return joined


def label(ax: Axes, by_fault: Lanes, end_s: float) -> None:
    """Draws a bar above the axes for each time a fault was active, one lane per fault, with labels where they fit."""
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import blended_transform_factory

    axes_height = ax.get_position().height
    blended = blended_transform_factory(ax.transData, ax.transAxes)
    unit = LANE / axes_height
    names = list(by_fault)
    for row, (name, mine) in enumerate(by_fault.items()):
        bottom = 1.0 + (len(by_fault) - 1 - row) * unit + 0.012 / axes_height
        shown = colour(names, name)
        for begin, width in merged([_extent(span, end_s) for span in mine], end_s / PIXELS):
            bar = Rectangle(
                (begin, bottom),
                width,
                unit * 0.16,
                transform=blended,
                facecolor=shown,
                alpha=0.85,
                linewidth=0,
                clip_on=False,
            )
            ax.add_patch(bar)
        _texts(ax, mine, end_s, bottom + unit * 0.22, shown, blended)


def _texts(ax: Axes, mine: Sequence[Span], end_s: float, bottom: float, shown: str, blended: object) -> None:
    """Draws the labels of one lane.

    A label that does not fit before the next bar is reduced to its targets, or omitted. The first label is always
    complete.

    mine     the times at which the lane's fault was active
    bottom   height of the labels
    shown    colour of the labels
    blended  coordinate transform of the labels
    """
    free = 0.0
    for number, span in enumerate(mine):
        begin = span.begin_ns / 1e9 / end_s
        following = mine[number + 1].begin_ns / 1e9 / end_s if number + 1 < len(mine) else 1.12
        short = "+".join(span.hit)
        doubt = " (no effect)" if span.took_effect is False else ""
        choices = [span.label + doubt, span.label, *([short + doubt, short] if number and short else [])]
        text = next((one for one in choices if begin + len(one) * CHARACTER <= following), "")
        if not text and number == 0:  # the first label always names the fault, even if it overlaps the next bar
            text = span.label
        if text and begin >= free - 1e-9:
            ax.text(
                span.begin_ns / 1e9,
                bottom,
                text,
                transform=blended,
                fontsize=9,
                color=shown,
                ha="left",
                va="bottom",
                clip_on=False,
            )
            free = begin + (len(text) + 1) * CHARACTER
