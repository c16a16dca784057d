"""Renders the pages about stored runs, for the server and for the static export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.report.page import settings_and_command
from harness.report.text import compare, summary
from harness.stored import damaged, find_runs
from harness.web import drawings, past_results, paths, rendering, run_files, run_query
from harness.web.past_results import Done, Past
from harness.web.read_live_history import Reading, Watches
from harness.web.run_list import GOING, Catalogue, Row

STATIC: Final = {name: f"by-{name}.html" for name in run_query.COLUMNS} | {run_query.FIRST: "index.html"}
TEXT_MAX: Final = 400  # characters of a value in a comparison
UP: Final = "../"
REFRESH_S: Final = 2
MATRICES_MAX: Final = 12
NODES_MAX: Final = 30


@dataclass(frozen=True)
class Views:
    """Renders the pages about a folder of runs.

    static  whether the pages are files of an export; the links in such pages have no query strings
    """

    runs: Path
    static: bool = False
    catalogue: Catalogue = field(init=False)
    results: past_results.Results = field(init=False)
    watches: Watches = field(default_factory=Watches)

    def __post_init__(self) -> None:
        object.__setattr__(self, "catalogue", Catalogue(self.runs))
        object.__setattr__(self, "results", past_results.Results(self.runs))

    def _render(self, template: str, root: str, **values: Any) -> bytes:
        return rendering.render(template, root, self.static, **values)

    # --- runs -----------------------------------------------------------------------------------------

    def index(self, query: run_query.Query, rows: Sequence[Row] | None = None) -> bytes:
        """Returns the page with the list of runs. In an export, this page lists all runs."""
        every = self.catalogue.rows() if rows is None else rows
        chosen = run_query.select(every, query, max(1, len(every)) if self.static else run_query.PER_PAGE)
        return self._render(
            "runs.html.j2",
            "",
            here="runs",
            title="runs",
            runs=str(self.runs),
            folder_exists=self.runs.is_dir(),
            query=query,
            chosen=chosen,
            choices=run_query.choices(every),
            heads=self._heads(query),
        )

    def _heads(self, query: run_query.Query) -> list[tuple[str, str, str]]:
        """Returns (title, link, order) for each column of the list of runs.

        The link sorts the list by the column. `order` is "ascending" or "descending" if the list is now sorted by the
        column, otherwise "".
        """
        found = []
        for name, column in run_query.COLUMNS.items():
            mine = query.sort == name
            down = not query.down if mine else column.down
            link = STATIC[name] if self.static else query.link(sort=name, down=down, page=1)
            found.append((column.title, link, ("descending" if query.down else "ascending") if mine else ""))
        return found

    def run(self, folder: Path, rows: Sequence[Row], still: bool = False) -> bytes:
        """Returns the page of a run: its result, and links to its files.

        still  whether the page of a run in progress must not reload itself
        """
        row = self.catalogue.row(folder)
        plan = find_runs.plan_of(folder)
        previous = run_query.before(rows, row)
        reading = self.watches.look(folder) if row.going else None
        going = row.verdict == GOING and not self.static
        return self._render(
            "run.html.j2",
            UP * 2,
            here="run",
            title=row.id,
            row=row,
            summary=self._summary(folder),
            settings=_settings(plan),
            command=settings_and_command.command(plan, str(folder)),
            plots=run_files.plots(folder),
            parts=self._parts(folder),
            previous=previous.id if previous else None,
            live=_live(reading, plan) if reading is not None else None,
            going=going,
            refresh=REFRESH_S if going and not still else 0,
        )

    def _summary(self, folder: Path) -> list[str]:
        """Returns the lines of a run's summary, or a message if the results cannot be used; nothing if
        there are none."""
        try:
            result = find_runs.result_of(folder)
            if result is None:
                return []
            return summary.summary(folder, result).splitlines()
        except BadInput as error:
            return [str(error)]
        except damaged.DAMAGED as error:
            return [f"The results cannot be shown ({type(error).__name__}: {error})."]

    def _parts(self, folder: Path) -> list[tuple[str, str]]:
        """Returns (name, link) of each file to which the page of a run links, if the file exists."""
        candidates: list[tuple[str, tuple[str, ...]]] = [
            ("order pages", ("orders", "index.html")),
            ("plan", ("plan.yaml",)),
            ("results", ("results.json",)),
            ("history", ("history", "00000.jsonl")),
            ("events", ("events", "harness.jsonl")),
            ("harness log", ("harness.log",)),
            *((f"log of {node}", ("logs", node, "server.log")) for node in _nodes(folder)),
        ]
        return [
            (what, run_files.link(folder, names, self.static))
            for what, names in candidates
            if paths.inside(folder, names) is not None
        ]

    def files(self, folder: Path) -> bytes:
        """Returns the page that lists the files of a run."""
        listed, more = run_files.listed(folder)
        rows = [("/".join(file.names), run_files.link(folder, file.names, self.static), file.size) for file in listed]
        return self._render("files.html.j2", UP * 2, here="run", title=folder.name, files=rows, more=more)

    # --- comparing ------------------------------------------------------------------------------------

    def since(self, folder: Path, rows: Sequence[Row]) -> bytes:
        """Returns the page that compares a run with the previous run of the same workload and faults.

        Raises BadInput if there is no previous one.
        """
        previous = run_query.before(rows, self.catalogue.row(folder))
        if previous is None:
            raise BadInput(f"no run before {folder.name} has the same workload and faults")
        return self.compare([previous.id, folder.name], UP * 2)

    def compare(self, chosen: Sequence[str], root: str = "") -> bytes:
        """Returns the page that compares two runs. `root`: relative path from the page to the list of runs.

        Raises BadInput if `chosen` does not contain exactly two runs, or if the runs cannot be compared.
        """
        names = [name for name in dict.fromkeys(chosen) if name]
        if len(names) != 2:
            raise BadInput(f"{len(names)} runs were selected; select two in the list of runs to compare them")
        folders = [self.folder(name) for name in names]
        try:
            comparison = compare.compare(*folders)
        except damaged.DAMAGED as error:
            raise BadInput(f"{names[0]} and {names[1]} cannot be compared ({type(error).__name__}: {error})") from None
        parts = [
            (title, [_compared(row) for row in rows], marked)
            for title, rows, marked in (
                ("Settings that differ", comparison.settings, True),
                ("Anomalies", comparison.anomalies, True),
                ("Figures", comparison.figures, False),
            )
        ]
        verdicts = [str(verdict or "not judged") for verdict in (comparison.verdict.a, comparison.verdict.b)]
        return self._render(
            "compare.html.j2", root, here="", title="compare", names=names, verdicts=verdicts, parts=parts
        )

    def folder(self, name: str) -> Path:
        """Returns the folder of a run.

        Raises BadInput if there is no such run, or if a link in it leads out of the folder.
        """
        found = paths.folder_of(self.runs, name)
        if found is None or not find_runs.is_run(found):
            raise BadInput(f"there is no run {name[:300]} here")
        if out := paths.leaving(found):
            raise BadInput(f"{found}: not shown, because {out} is a link to a place outside the folder")
        return found

    # --- experiments ----------------------------------------------------------------------------------

    def experiments(self, past: Past) -> bytes:
        """Returns the page that lists the experiments with their latest results."""
        rows = [(done[0], len(done), past_results.slug(name)) for name, done in past.by_name.items()]
        return self._render(
            "experiments.html.j2", "", here="experiments", title="experiments", rows=rows, broken=past.broken
        )

    def experiment(self, done: Sequence[Done], ids: frozenset[str]) -> bytes:
        """Returns the page of one experiment, with its results over time.

        done  all results of the experiment, the newest first
        ids   ids of the runs that still exist; the page links only to these
        """
        lines = [(line, drawings.shares(line)) for line in past_results.lines(done)]
        return self._render(
            "experiment.html.j2",
            UP,
            here="experiments",
            title=done[0].name,
            last=done[0],
            done=done,
            lines=lines,
            ids=ids,
            high=drawings.LINE_HIGH,
            each=drawings.POINT_WIDE,
        )

    def matrix(self, past: Past, ids: frozenset[str]) -> bytes:
        """Returns the page of the latest matrices: a row for each cell, and a column for each matrix.

        ids  ids of the runs that still exist; the page links only to these
        """
        times = list(past.matrices[:MATRICES_MAX])
        cells: dict[str, dict[str, past_results.Case]] = {}
        for result in times:
            for case in result.cases:
                cells.setdefault(case.name, {})[result.folder] = case
        return self._render(
            "matrix.html.j2",
            "",
            here="matrix",
            title="matrices",
            times=times,
            cells=sorted(cells.items()),
            ids=ids,
            left=max(0, len(past.matrices) - MATRICES_MAX),
        )

    def message(self, title: str, text: str, root: str) -> bytes:
        """Returns a page with an error message. `root`: relative path from the page to the list of runs."""
        return self._render("message.html.j2", root, here="", title=title, text=text)


def _settings(plan: Any) -> list[Any]:
    try:
        return list(settings_and_command.changed(plan))
    except damaged.DAMAGED:  # an edited plan
        return []


def _nodes(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in (folder / "logs").iterdir() if path.is_dir())[:NODES_MAX]
    except OSError:
        return []


def _compared(row: compare.Row) -> tuple[str, str, str, bool]:
    """Returns (name, value in the first run, value in the second run, whether they differ), as text."""
    name, a, b = (
        text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
        for text in (str(row.name), compare.cell(row.a), compare.cell(row.b))
    )
    return name, a, b, row.a != row.b


def _live(reading: Reading, plan: Any) -> dict[str, Any]:
    limit, progress = plan.get("time_limit_s"), reading.progress
    return {
        "reading": reading,
        "seconds": progress.end_ns / 1e9,
        "limit": float(limit) if isinstance(limit, int | float) else None,
        "counts": {outcome: progress.count(outcome) for outcome in drawings.OUTCOMES},
        "recent": progress.recent(),
        "rates": drawings.rates(progress.rates, progress.end_ns / 1e9),
        "by_f": sorted(progress.by_f.items(), key=lambda item: -sum(item[1].values())),
        "faults": [(at / 1e9, what) for at, what in reversed(progress.faults)],
        "first": reading.first,
        "outcomes": drawings.OUTCOMES,
        "wide": drawings.WIDE,
        "high": drawings.HIGH,
    }
