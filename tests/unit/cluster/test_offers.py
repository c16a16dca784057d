"""Capabilities are tested with `offers`, because a named cluster has methods for more than it offers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from harness.persistent.server import CAPABILITIES

ROOT = Path(__file__).parents[3]
NAMES = {capability.__name__ for capability in CAPABILITIES}


def questions(node: ast.AST) -> Iterator[ast.Call]:
    """Calls of isinstance for a capability, outside of assertions, which only repeat an earlier test."""
    if isinstance(node, ast.Assert):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        kind = node.args[1]
        if isinstance(kind, ast.Name) and kind.id in NAMES:
            yield node
    for child in ast.iter_child_nodes(node):
        yield from questions(child)


def test_capabilities_are_asked_for_with_offers() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for package in ("harness", "nemesis", "workloads")
        for path in sorted((ROOT / package).rglob("*.py"))
        for call in questions(ast.parse(path.read_text()))
    ]
    assert found == []
