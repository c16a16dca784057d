"""Decides which page, file or archive is the answer to a request about runs. Independent of HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import parse_qs

from harness.model.errors_and_exit_codes import BadInput
from harness.stored import find_runs
from harness.web import past_results, paths, rendering, run_files, run_query, zip_archive
from harness.web.pages_of_runs import Views

OWN: Final = "frame-ancestors 'none'"
FIELDS_MAX: Final = 40
NOT_PLAIN: Final = re.compile(r"[^\w.-]", re.ASCII)
ZIP: Final = "application/zip"


@dataclass(frozen=True)
class Answer:
    """An answer to a request.

    kind    the content type
    policy  the content security policy
    body    the content, unless `file` or `write` is given
    file    an open file with the content, and its length in bytes
    write   a function that writes the content
    """

    status: int
    kind: str
    policy: str
    body: bytes = b""
    file: tuple[BinaryIO, int] | None = None
    write: Callable[[zip_archive.Out], None] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Site:
    """The website about a folder of runs."""

    def __init__(self, runs: Path) -> None:
        self.views = Views(runs)

    def answer(self, target: str) -> Answer:
        """Returns the answer to a request for `target`, the path with its query string.

        An error, such as BadInput, becomes a page with a message.
        """
        names = paths.parts(target)
        if names is None:
            return self.missing("There is nothing at this address.")
        try:
            query_text = target.partition("?")[2]
            query = parse_qs(query_text, errors="surrogateescape", max_num_fields=FIELDS_MAX)
        except ValueError:
            return self._message(400, "bad request", "The address has too many query fields.")
        try:
            return self._route(names, query)
        except BadInput as error:
            return self._message(404, "cannot be shown", str(error))

    def _route(self, names: tuple[str, ...], query: Mapping[str, Sequence[str]]) -> Answer:
        match names:
            case ("",) | ("index.html",):
                return _page(self.views.index(run_query.of(query)))
            case ("compare.html",):
                return _page(self.views.compare(query.get("run", ())))
            case ("experiments.html",):
                return _page(self.views.experiments(self.views.results.read()))
            case ("experiments", name) if name.endswith(".html"):
                return self._experiment(name.removesuffix(".html"))
            case ("matrix.html",):
                return _page(self.views.matrix(self.views.results.read(), self._ids()))
            case ("favicon.ico",):
                return Answer(204, run_files.TEXT, run_files.NOTHING)
            case ("runs", name):
                return _moved(f"/{paths.link('runs', name)}/index.html")
            case ("runs", name, *rest):
                return self._run(self.views.folder(name), tuple(rest), query)
        return self.missing("There is nothing at this address.")

    def _run(self, folder: Path, rest: tuple[str, ...], query: Mapping[str, Sequence[str]]) -> Answer:
        match rest:
            case ("",) | ("index.html",):
                rows = self.views.catalogue.rows()
                return _page(self.views.run(folder, rows, "still" in query))
            case ("files.html",):
                return _page(self.views.files(folder))
            case ("compare.html",):
                return _page(self.views.since(folder, self.views.catalogue.rows()))
            case ("run.zip",):
                saved = f'attachment; filename="{NOT_PLAIN.sub("_", folder.name)}.zip"'
                return Answer(
                    200,
                    ZIP,
                    run_files.NOTHING,
                    write=partial(zip_archive.write, folder),
                    headers={"Content-Disposition": saved},
                )
            case ("files", *names):
                return self._file(folder, tuple(names))
        return self.missing("There is nothing at this address.")

    def _file(self, folder: Path, names: tuple[str, ...]) -> Answer:
        if names == run_files.REPORT:
            text = run_files.report(folder).encode(errors="backslashreplace")
            return Answer(200, run_files.HTML, run_files.report_policy(), text)
        path = paths.inside(folder, names)
        if path is None:
            return self.missing("The run has no such file.")
        kind, policy = run_files.kind(names)
        try:
            opened = paths.opened(path)
        except OSError as error:
            return self.missing(f"The file cannot be read ({error.strerror}).")
        saved = {"Content-Disposition": "attachment"} if kind == run_files.BYTES else {}
        return Answer(200, kind, policy, file=opened, headers=saved)

    def _experiment(self, slug: str) -> Answer:
        experiments = self.views.results.read().by_name
        for name, done in experiments.items():
            if past_results.slug(name) == slug:
                return _page(self.views.experiment(done, self._ids()))
        return self.missing("There are no results of this experiment here.")

    def _ids(self) -> frozenset[str]:
        return frozenset(folder.name for folder in find_runs.folders(self.views.runs))

    def missing(self, text: str) -> Answer:
        """Returns the answer for a missing page or file."""
        return self._message(404, "not found", text)

    def _message(self, status: int, title: str, text: str) -> Answer:
        return _page(self.views.message(title, text, "/"), status)


def _page(body: bytes, status: int = 200) -> Answer:
    return Answer(status, run_files.HTML, f"{rendering.policy()}; {OWN}", body)


def _moved(where: str) -> Answer:
    return Answer(302, run_files.TEXT, run_files.NOTHING, headers={"Location": where})
