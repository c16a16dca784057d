"""The layout of the code: no circular imports between files or folders at any level, and not too many folders.

Imports within functions count, too. `make layers` checks the order of the layers; see pyproject.toml.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import networkx as nx
import pytest

from tests.mutants import run as mutants

ROOT = Path(__file__).parents[2]
PACKAGES = ("harness", "nemesis", "workloads", "checker")
FOLDERS_MAX = 36  # the four packages, and the folders directly in them


def _sources() -> Iterator[PurePosixPath]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield PurePosixPath(path.relative_to(ROOT).as_posix())


def _module(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of imported modules, and of what may be a module in a package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                yield node.module


@cache
def imports() -> tuple[tuple[PurePosixPath, PurePosixPath], ...]:
    """Which file of the packages imports which. A package's __init__ counts only if a name is imported from it."""
    files = {_module(path): path for path in _sources()}
    found = set()
    for importing in files.values():
        taken = {files[name] for name in _imported(ast.parse((ROOT / importing).read_text())) if name in files}
        plain = {path for path in taken if path.name != "__init__.py"}
        found |= {(importing, path) for path in plain if path != importing}
    return tuple(sorted(found))


def _circles(edges: Iterator[tuple[object, object]]) -> list[list[str]]:
    graph = nx.DiGraph(edges)
    return [sorted(map(str, circle)) for circle in nx.strongly_connected_components(graph) if len(circle) > 1]


def folders() -> list[PurePosixPath]:
    return sorted({folder for path in _sources() for folder in path.parents if folder.parts})


def test_no_circle_between_files() -> None:
    assert _circles(iter(imports())) == []


@pytest.mark.parametrize("folder", folders(), ids=str)
def test_no_circular_imports_inside_a_folder(folder: PurePosixPath) -> None:
    depth = len(folder.parts)
    inside = [pair for pair in imports() if all(path.is_relative_to(folder) for path in pair)]
    children = ((importing.parts[depth], imported.parts[depth]) for importing, imported in inside)
    assert _circles(pair for pair in children if pair[0] != pair[1]) == []


def test_no_circle_at_the_top_two_levels() -> None:
    rooms = ((importing.parts[:2], imported.parts[:2]) for importing, imported in imports())
    assert _circles(pair for pair in rooms if pair[0] != pair[1]) == []


def test_few_folders_at_the_top_two_levels() -> None:
    found = [path for package in PACKAGES for path in (ROOT / package).iterdir() if path.is_dir()]
    top = [path for path in found if not path.name.startswith((".", "__"))]
    assert len(PACKAGES) + len(top) <= FOLDERS_MAX, sorted(path.name for path in top)


def test_the_modules_that_mutants_are_made_of_exist() -> None:
    assert all(path.is_file() for path in mutants.sources().values())
