"""Plot of the number of operations completed per second, for each function f and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.report.plots import bin_operations, latency, style
from harness.report.plots.bin_operations import Readings
from harness.stored.fault_spans import Span


def draw(data: Readings, spans: Sequence[Span], subtitle: str, folder: Path) -> list[Path]:
    """Draws the plot rate: a panel for each f, with a line for each outcome that occurred."""
    fs = latency.shown(data)
    axes = style.panels("Operations completed per second", subtitle, fs or [""], spans, data.end_s)
    if not fs:
        style.no_data(axes[0])
        return style.save(axes, folder, "rate")
    width = data.end_s / bin_operations.WINDOWS
    edges = np.arange(bin_operations.WINDOWS + 1) * width
    used: set[str] = set()
    for ax, f in zip(axes, fs, strict=True):
        for outcome, counts in data.by_f[f].rates.items():
            used.add(outcome)
            ax.stairs(
                counts / width,
                edges,
                color=style.OUTCOMES.get(outcome, style.OTHERS),
                linewidth=1.4,
                zorder=3 if outcome == "ok" else 4,
                fill=False,
                baseline=None,
            )
        highest = max((int(counts.max()) for counts in data.by_f[f].rates.values()), default=0)
        ax.set_ylim(0, 1.35 * max(highest, 1) / width)  # leaves room for the panel's name
    style.y_label(axes, "operations per second")
    latency.final_line(axes, data)
    names = [outcome for outcome in bin_operations.OUTCOMES if outcome in used]
    handles = style.lines(style.OUTCOMES[name] for name in names)
    style.legend(axes[0], handles, [style.OUTCOME_NAMES[name] for name in names])
    return style.save(axes, folder, "rate")
