"""Converts a result to the format of Jepsen's results, as in tests/histories/jepsen/expected.jsonl.gz.

    {"valid": false, "error_types": [...], "bad_error_types": [...],
     "errors": {"G1a": {"count": 1, "errs": [{"key": 5, "value": 4, "writer": {"op": 153}, ...}]},
                "unseen": {"time": 10502970, "unseen": {"2": 2}, "messages": {"2": [2, 3]}}}}

Where Jepsen prints an op in full, this format has {"op": its id}. Types are sorted by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checker.kernels.witness import OP_FIELDS
from harness.model.check_result import AS_JSON, AnomalyFound, Result

_OPS: Final = OP_FIELDS | {"cycle"}
_OF_CYCLE: Final = frozenset({"type", "cycle", "steps"})
_OPS_OF_REALTIME: Final = ("a'", "b")


def _op(index: Any) -> Any:
    return None if index is None else {"op": index}


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    if step.get("type") != "realtime":
        return dict(step)
    return {name: _op(field) if name in _OPS_OF_REALTIME else field for name, field in step.items()}


def witness(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a witness in Jepsen's format. If the witness is a cycle, it has only the fields that Jepsen reports."""
    shaped: dict[str, Any] = {}
    for name, field in found.items():
        if "cycle" in found and name not in _OF_CYCLE:
            continue
        if name in _OPS:
            shaped[name] = [_op(index) for index in field] if isinstance(field, list | tuple) else _op(field)
        elif name == "steps":
            shaped[name] = [_step(step) for step in field]
        else:
            shaped[name] = field
    return shaped


def _errors(found: AnomalyFound) -> Any:
    if found.name == "unseen":
        return dict(found.witnesses[0]) if found.witnesses else {}
    return {"count": found.count, "errs": [witness(one) for one in found.witnesses]}


def answer(result: Result) -> dict[str, Any]:
    """Returns a result in Jepsen's format.

    `errs` has all witnesses under Jepsen's rules, but only the worst ones under the harness's own rules.
    """
    by_name = sorted(result.anomalies, key=lambda found: found.name)
    return {
        "valid": AS_JSON[result.valid],
        "error_types": [found.name for found in by_name],
        "bad_error_types": [found.name for found in by_name if found.bad],
        "errors": {found.name: _errors(found) for found in by_name},
    }
