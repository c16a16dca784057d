"""Exports the server's pages as a static site, which can be opened from a disk or from a store of build artefacts.

A static site has no HTTP headers, so each page contains its content security policy. A run's file in which a browser
might run scripts is exported as text.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.web import past_results, paths, run_files, run_query
from harness.web.pages_of_runs import STATIC, UP, Views
from harness.web.run_list import Row

Say = Callable[[str], None]
NAMES_MAX: Final = 255  # bytes of a file name


def export(runs: Path, target: Path, say: Say) -> int:
    """Writes the site to a folder, which must be empty or not exist yet. Returns the number of runs.

    Raises BadInput and Missing.
    """
    if not runs.is_dir():
        raise BadInput(f"{runs}: not a folder of runs; give one with --runs")
    _check(runs, target)
    views = Views(runs, static=True)
    rows = views.catalogue.rows()
    try:
        target.mkdir(parents=True, exist_ok=True)
        _write(target / "index.html", views.index(run_query.Query(), rows))
        for name, file in STATIC.items():
            query = run_query.of({"sort": [name]})
            _write(target / file, views.index(query, rows))
        for at, row in enumerate(rows):
            if at and at % 100 == 0:
                say(f"{at} of {len(rows)} runs")
            _run(views, rows, row, target / "runs" / row.id)
        _past(views, rows, target)
    except OSError as error:
        where = error.filename or target
        raise Missing(
            f"{where}: cannot be written ({error.strerror}); free some space or fix the permissions"
        ) from None
    return len(rows)


def _check(runs: Path, target: Path) -> None:
    try:
        taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
        site_folder, runs_folder = target.resolve(), runs.resolve()
    except OSError as error:
        raise BadInput(f"--export {target}: {error.strerror}; give a new folder") from None
    if any(parent.is_file() for parent in target.parents):
        raise BadInput(f"--export {target}: a parent is a file; give a new folder")
    if taken:
        raise BadInput(f"--export {target}: already exists; give a new or an empty folder")
    if site_folder.is_relative_to(runs_folder):
        raise BadInput(f"--export {target}: is inside the folder of runs; give a folder elsewhere")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _run(views: Views, rows: Sequence[Row], row: Row, target: Path) -> None:
    try:
        folder = views.folder(row.id)
    except BadInput as error:
        _write(target / "index.html", views.message("cannot be shown", str(error), UP * 2))
        return
    _write(target / "index.html", views.run(folder, rows))
    _write(target / "files.html", views.files(folder))
    _write(target / "compare.html", _or_why(views, lambda: views.since(folder, rows), UP * 2))
    page = _or_why(views, lambda: run_files.report(folder).encode(errors="backslashreplace"), UP * 3)
    for file in run_files.walk(folder):
        path = paths.inside(folder, file.names)
        if path is None or file.names == run_files.REPORT:
            continue
        names = run_files.exported(folder, file.names)
        if len(names[-1].encode(errors="surrogateescape")) > NAMES_MAX:
            continue
        copy = target.joinpath("files", *names)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            source, _ = paths.opened(path)
        except OSError:  # removed in the meantime, or not readable
            continue
        with source, copy.open("wb") as out:
            shutil.copyfileobj(source, out)
    _write(target / "files" / "report.html", page)


def _or_why(views: Views, page: Callable[[], bytes], root: str) -> bytes:
    try:
        return page()
    except BadInput as error:
        return views.message("cannot be shown", str(error), root)


def _past(views: Views, rows: Sequence[Row], target: Path) -> None:
    past = views.results.read()
    ids = frozenset(row.id for row in rows)
    _write(target / "experiments.html", views.experiments(past))
    _write(target / "matrix.html", views.matrix(past, ids))
    for name, done in past.by_name.items():
        _write(target / "experiments" / f"{past_results.slug(name)}.html", views.experiment(done, ids))
