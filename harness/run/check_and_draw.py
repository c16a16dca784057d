"""Checks a stored run, and draws its plots and pages: everything that is made from a run folder after the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import history_writer
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, to_data
from harness.plan import plan_file
from harness.plan.resolve import judged_by
from harness.run import record_cluster_settings

if TYPE_CHECKING:
    from harness.report.plots.second_process import SecondProcess

Say = Callable[[str], None]


def check_run(path: Path, options: CheckOptions, session: Any, say: Say, stored: bool = True) -> Result:
    """Checks a history and returns the result. If `stored`, also writes it to results.json in the run folder."""
    from checker import check

    result = check.check(session, path, options, say)
    if stored:
        history_writer.write_json(path / "results.json", to_data(result))
    return result


def draw(folder: Path, say: Say, plots: bool = True, second: SecondProcess | None = None) -> list[Path]:
    """Draws the plots, the pages about keys with anomalies, and the page of the run. Prints where the pages are.

    Returns the paths of all these files.

    plots   whether to draw the plots
    second  the process that draws the plots while this one draws the pages; None: this process draws everything
    """
    from harness.report.order import order_pages
    from harness.report.page import run_page
    from harness.report.plots import all_plots
    from harness.stored import find_runs

    drawing = second.begin(folder) if plots and second is not None else None
    drawn = all_plots.draw(folder) if plots and drawing is None else []
    result = find_runs.result_of(folder)
    pages = order_pages.draw(folder, result) if result is not None else []
    if pages:
        say(f"order of writes and polls, key by key: {pages[0]}")
    page = run_page.draw(folder)
    say(f"open: {page}")
    if drawing is not None:
        drawn = drawing()
    return [*drawn, *pages, page]


def options_of(folder: Path, **changes: Any) -> CheckOptions:
    """Returns the check options of a stored run: those of its plan, overridden by the user's changes."""
    path = folder / "plan.yaml"
    options = (
        judged_by(plan_file.load(path), record_cluster_settings.recorded(folder)) if path.exists() else CheckOptions()
    )
    return replace(options, **changes)
