"""The files of a run: what there is, and as what a browser may take each.

A browser runs nothing of them: pages of ours with the policy that lets only our own scripts run, pictures,
and everything else as text or to be saved.
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
# What a browser that opens it from a disk or from any server runs nothing of.
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
    """A file of a run: its names from the run folder on, and its bytes."""

    names: tuple[str, ...]
    size: int


def walk(folder: Path) -> Iterator[File]:
    """The plain files of a run, by name; links that lead out of it are left out, those to folders too."""
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
    except OSError:  # gone meanwhile
        return None


def listed(folder: Path) -> tuple[list[File], bool]:
    """The first LISTED_MAX files, and whether there are more."""
    found: list[File] = []
    for file in walk(folder):
        if len(found) == LISTED_MAX:
            return found, True
        found.append(file)
    return found, False


def plots(folder: Path) -> list[str]:
    """The names of the plots, as PNG."""
    try:
        names = sorted(path.name for path in (folder / "plots").iterdir())
    except OSError:
        return []
    shown = [name for name in names if name.endswith(".png") and paths.inside(folder, ("plots", name))]
    return shown[:PLOTS_MAX]


def is_order_page(names: Sequence[str]) -> bool:
    """Whether it is where order pages stand."""
    return len(names) == 2 and names[0] == order_paths.NAME and names[1].endswith(".html")


def kind(names: Sequence[str]) -> tuple[str, str]:
    """As what a browser is to take a file, and under which policy."""
    suffix = Path(names[-1]).suffix.lower()
    if is_order_page(names):
        return HTML, f"{key_page.POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    if suffix == ".svg":
        return SVG, f"{NOTHING}; style-src 'unsafe-inline'; sandbox"
    known = {".png": PNG, **dict.fromkeys(TEXTS, TEXT)}
    return known.get(suffix, BYTES), f"{NOTHING}; sandbox"


def report_policy() -> str:
    """The policy of a run's own page."""
    return f"{document.policy(*document.bundle())}; frame-ancestors 'none'"


def report(folder: Path) -> str:
    """The page of a run: the stored one if this version would run its script, otherwise it is made now."""
    text = _stored(folder)
    if text.startswith(document.beginning(TEMPLATE)):
        return text
    try:
        return run_page.page(folder)
    except damaged.DAMAGED as error:
        raise BadInput(f"{folder}: its page cannot be made ({type(error).__name__}: {error})") from None


def _stored(folder: Path) -> str:
    """The page that stands in a run folder; empty where there is none to be read."""
    path = paths.inside(folder, REPORT)
    try:
        if path is None or path.stat().st_size > 2 * run_page.BYTES_MAX:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def exported(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """The names of a file in an export: text, where a browser that opens it could run what is in there."""
    path = paths.inside(folder, tuple(names))
    if path is None or tuple(names) == REPORT or Path(names[-1]).suffix.lower() in HARMLESS:
        return tuple(names)
    if is_order_page(names) and _has_policy(path):
        return tuple(names)
    return (*names[:-1], f"{names[-1]}.txt")


def _has_policy(path: Path) -> bool:
    """Whether a page carries the policy of order pages before anything else."""
    head = key_page.document("").partition('<meta name="viewport"')[0].encode()
    try:
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def link(folder: Path, names: Sequence[str], static: bool) -> str:
    """From the page of a run to one of its files."""
    return paths.link("files", *(exported(folder, names) if static else names))
