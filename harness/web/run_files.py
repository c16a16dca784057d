"""Lists the files of a run, and decides with which content type and content security policy each is served.

No script in a run's files can run in a browser. The run page has a policy that allows only the scripts of this version.
Order pages, images and texts are served with policies that allow no scripts, and all other files as downloads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.model.errors_and_exit_codes import BadInput
from harness.report import order_paths
from harness.report.order import key_page
from harness.report.page import document, run_page
from harness.stored import damaged, find_runs
from harness.web import paths

LISTED_MAX: Final = 5_000
PLOTS_MAX: Final = 30
REPORT: Final = (find_runs.PAGE,)
TEMPLATE: Final = "report.html.j2"
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
BYTES: Final = "application/octet-stream"
PNG: Final = "image/png"
SVG: Final = "image/svg+xml"
TEXTS: Final = frozenset(
    {
        "",
        ".txt",
        ".log",
        ".json",
        ".jsonl",
        ".yaml",
        ".yml",
        ".properties",
        ".csv",
        ".md",
        ".edn",
        ".html",
        ".htm",
        ".xml",
        ".xhtml",
        ".js",
        ".css",
    }
)
# Types of files from which a browser runs no scripts, whether it opens them from disk or from any server.
HARMLESS: Final = frozenset(
    {
        ".txt",
        ".log",
        ".json",
        ".jsonl",
        ".yaml",
        ".yml",
        ".properties",
        ".csv",
        ".md",
        ".edn",
        ".png",
        ".parquet",
        ".gz",
    }
)
NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a run.

    names  its path in the run folder
    size   its size in bytes
    """

    names: tuple[str, ...]
    size: int


def walk(folder: Path) -> Iterator[File]:
    """Yields the regular files of a run, sorted by name in each folder.

    Links to folders, and links to places outside the run, are skipped.
    """
    for base, folders, files in os.walk(folder):
        folders.sort()
        parts = Path(base).relative_to(folder).parts
        for name in sorted(files):
            found = paths.inside(folder, (*parts, name))
            size = _size(found) if found is not None else None
            if size is not None:
                yield File((*parts, name), size)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:  # removed in the meantime
        return None


def listed(folder: Path) -> tuple[list[File], bool]:
    """Returns the first LISTED_MAX files of a run, and whether there are more."""
    found: list[File] = []
    for file in walk(folder):
        if len(found) == LISTED_MAX:
            return found, True
        found.append(file)
    return found, False


def plots(folder: Path) -> list[str]:
    """Returns the names of the plots of a run that exist as PNG files."""
    try:
        names = sorted(path.name for path in (folder / "plots").iterdir())
    except OSError:
        return []
    shown = [name for name in names if name.endswith(".png") and paths.inside(folder, ("plots", name))]
    return shown[:PLOTS_MAX]


def is_order_page(names: Sequence[str]) -> bool:
    """Returns whether this is the path of an order page in a run folder."""
    return len(names) == 2 and names[0] == order_paths.NAME and names[1].endswith(".html")


def kind(names: Sequence[str]) -> tuple[str, str]:
    """Returns the content type and the content security policy for a file."""
    suffix = Path(names[-1]).suffix.lower()
    if is_order_page(names):
        return HTML, f"{key_page.POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    if suffix == ".svg":
        return SVG, f"{NOTHING}; style-src 'unsafe-inline'; sandbox"
    types = {".png": PNG, **dict.fromkeys(TEXTS, TEXT)}
    return types.get(suffix, BYTES), f"{NOTHING}; sandbox"


def report_policy() -> str:
    """Returns the content security policy of the run page."""
    return f"{document.policy(*document.bundle())}; frame-ancestors 'none'"


def report(folder: Path) -> str:
    """Returns the run page as HTML.

    The stored page is returned only if its policy allows no script except the script of this version. Otherwise the
    page is rendered again.
    """
    text = _stored(folder)
    if text.startswith(document.beginning(TEMPLATE)):
        return text
    try:
        return run_page.page(folder)
    except damaged.DAMAGED as error:
        raise BadInput(f"{folder}: cannot create the page of this run ({type(error).__name__}: {error})") from None


def _stored(folder: Path) -> str:
    """Returns the stored run page; "" if it is missing, cannot be read or is too large."""
    path = paths.inside(folder, REPORT)
    try:
        if path is None or path.stat().st_size > 2 * run_page.BYTES_MAX:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def exported(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the path that a run's file has in an export.

    It is the path in the run folder, with ".txt" appended if a browser might run scripts in the file.
    """
    path = paths.inside(folder, tuple(names))
    if path is None or tuple(names) == REPORT or Path(names[-1]).suffix.lower() in HARMLESS:
        return tuple(names)
    if is_order_page(names) and _has_policy(path):
        return tuple(names)
    return (*names[:-1], f"{names[-1]}.txt")


def _has_policy(path: Path) -> bool:
    """Returns whether a file begins like an order page, including its content security policy."""
    head = key_page.document("").partition('<meta name="viewport"')[0].encode()
    try:
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def link(folder: Path, names: Sequence[str], static: bool) -> str:
    """Returns the link from the page of a run to one of its files. `static`: the page is a file of an export."""
    return paths.link("files", *(exported(folder, names) if static else names))
