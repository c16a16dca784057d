"""The harness calls a worker's roles by name over a socket: names and arguments must match the role's methods."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clients.admin import AdminRole
from harness.clients.log_model.actions_to_requests import LogRole

ROOT = Path(__file__).parents[3]
ROLES = {"_log": LogRole, "_ask": AdminRole}
ASKED = ROOT / "harness" / "run" / "log_model_brokers.py"


def calls() -> Iterator[ast.Call]:
    """`self._log("name", within_s, argument=...)`"""
    for node in ast.walk(ast.parse(ASKED.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ROLES):
            continue
        if node.args and isinstance(node.args[0], ast.Constant):
            yield node


@pytest.mark.parametrize("call", list(calls()), ids=lambda call: f"{call.args[0].value}-{call.lineno}")
def test_a_role_takes_what_it_is_asked(call: ast.Call) -> None:
    name = call.args[0].value  # type: ignore[attr-defined]
    method = getattr(ROLES[call.func.attr], name)  # type: ignore[attr-defined]
    arguments = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    inspect.signature(method).bind_partial(None, **arguments)
