"""The common style of all plots: size, colours, axes, and saving as PNG and SVG. Does not use pyplot's global state.

Importing matplotlib takes long. The pages need only the colours, so matplotlib is imported only when a plot is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.report.plots import fault_bands
from harness.stored.fault_spans import Span

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

INCHES: Final = (12.0, 5.0)
DPI: Final = 100
TEXT: Final = "#1a1a1a"
FAINT: Final = "#767676"
GRID: Final = "#e4e4e4"
# Okabe and Ito's palette, which is safe for red-green colour blindness, without yellow, which is too faint on white.
PALETTE: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B4EA0", "#8C6D31")
OTHERS: Final = "#9a9a9a"
OUTCOMES: Final = {"ok": "#0072B2", "info": "#E69F00", "fail": "#C4308A", "open": "#1a1a1a"}
OUTCOME_NAMES: Final = {"ok": "ok", "info": "info (indeterminate)", "fail": "fail", "open": "never completed"}

LEFT: Final = 0.068
RIGHT: Final = 0.845
BOTTOM: Final = 0.105
TOP: Final = 0.905

# Storing text as text keeps SVG files small; a fixed salt makes their ids reproducible.
SAVING: Final = {"svg.fonttype": "none", "svg.hashsalt": "harness"}


def panels(title: str, subtitle: str, names: Sequence[str], spans: Sequence[Span], end_s: float) -> list[Axes]:
    """Creates panels one below the other, with a common time axis, and with faults as tinted backgrounds and labels.

    names  the texts at the top left of the panels; a single empty name makes one panel without a text
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DPI, facecolor="white")
    lanes = fault_bands.lanes(spans)
    top = TOP - fault_bands.height(lanes)
    grid = figure.add_gridspec(
        len(names), 1, left=LEFT, right=RIGHT, bottom=BOTTOM, top=top, hspace=0.14 if len(names) > 1 else 0
    )
    axes: list[Axes] = []
    for row, name in enumerate(names):
        ax = figure.add_subplot(grid[row, 0], sharex=axes[0] if axes else None)
        _plain(ax, last=row == len(names) - 1)
        if name:
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
            ax.text(
                0.006,
                0.96,
                name,
                transform=ax.transAxes,
                va="top",
                ha="left",
                fontsize=10,
                fontweight="bold",
                color=TEXT,
                bbox=box,
                zorder=6,
            )
        axes.append(ax)
    axes[0].set_xlim(0, max(end_s, 1e-3))
    axes[-1].set_xlabel("time since the run began [s]", fontsize=10, color=TEXT)
    figure.text(LEFT, 0.975, title, fontsize=13, fontweight="bold", color=TEXT, va="top")
    figure.text(0.99, 0.972, subtitle, fontsize=9, color=FAINT, va="top", ha="right")
    for ax in axes:
        fault_bands.shade(ax, spans, end_s)
    fault_bands.label(axes[0], lanes, end_s)
    return axes


def _plain(ax: Axes, last: bool) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(FAINT)
    ax.tick_params(colors=TEXT, labelsize=9, labelbottom=last, length=3)
    ax.grid(True, color=GRID, linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)


def y_label(axes: Sequence[Axes], text: str) -> None:
    """Adds one label of the y axis that applies to all panels."""
    figure = axes[0].figure
    middle = (axes[0].get_position().y1 + axes[-1].get_position().y0) / 2
    figure.text(0.008, middle, text, rotation=90, va="center", ha="left", fontsize=10, color=TEXT)


def legend(ax: Axes, handles: Sequence[Artist], labels: Sequence[str], title: str = "") -> None:
    """Adds a legend to the right of the panels."""
    if not handles:
        return
    box = ax.legend(
        list(handles),
        list(labels),
        title=title or None,
        loc="upper left",
        bbox_to_anchor=(1.012, 1.0),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        labelcolor=TEXT,
        borderaxespad=0,
        handlelength=1.4,
        alignment="left",
    )
    box.get_title().set_color(FAINT)


def lines(colours: Iterable[str]) -> list[Artist]:
    """Returns a line of each colour, for use in a legend."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=colour, linewidth=2) for colour in colours]


def colour_bar(ax: Axes, mesh: ScalarMappable, text: str) -> None:
    """Adds a colour scale to the right of the panel."""
    place = ax.get_position()
    side = ax.figure.add_axes((RIGHT + 0.02, place.y0, 0.015, place.height))
    ax.figure.colorbar(mesh, cax=side)
    side.tick_params(colors=TEXT, labelsize=9, length=3)
    side.set_ylabel(text, fontsize=10, color=TEXT)


def duration(seconds: float) -> str:
    """Formats a number of seconds with a suitable unit, for a tick of an axis."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds / 1e-6:g} µs" if seconds else "0"


def log_durations(ax: Axes, low_s: float, high_s: float) -> None:
    """Makes the y axis logarithmic, with durations as labels, and leaves space above the data."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_yscale("log")
    ax.set_ylim(max(low_s, 1e-6) / 1.6, max(high_s, low_s * 10) * 2.0)
    ax.yaxis.set_major_locator(LogLocator(10, numticks=7))
    ax.yaxis.set_minor_locator(NullLocator())  # minor ticks take longer to draw than all the rest
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(float(value))))


def no_data(ax: Axes, why: str = "no data") -> None:
    """Writes a message into a panel that has nothing to show."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", fontsize=14, color=FAINT)
    ax.set_yticks([])


def save(axes: Sequence[Axes], folder: Path, name: str) -> list[Path]:
    """Writes NAME.png and NAME.svg, and returns their paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = axes[0].figure
    assert isinstance(figure, Figure)
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with mpl.rc_context(SAVING):
        FigureCanvasAgg(figure)
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
        FigureCanvasSVG(figure)
        figure.savefig(svg, dpi=DPI, format="svg", metadata={"Date": None})
    return [png, svg]
