"""Jepsen's own answers in tests/histories/jepsen, and how ours are compared with them.

Everything must agree: the verdict, error types, bad error types, every witness; but for DIFFERENCES.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checker.kernels.witness import OP_FIELDS
from harness.model.check_options import CheckOptions

FOLDER: Final = Path(__file__).parents[2] / "histories" / "jepsen"

# Where ours may differ, and why.
DIFFERENCES: Final = {
    "no-writer-of-value": "Jepsen crashes; ours reports a phantom-read, and judges the rest",
    "java.lang.IndexOutOfBoundsException": "Jepsen crashes at polls that hold nothing; ours answers",
    "cycle": "which of several cycles of a component is shown is left open: component and type must agree",
}
CRASHES: Final = ("no-writer-of-value", "java.lang.IndexOutOfBoundsException")

Row = Mapping[str, Any]


def rows() -> list[Row]:
    """The expected answers, grouped by history."""
    with gzip.open(FOLDER / "expected.jsonl.gz") as stream:
        return sorted((json.loads(line) for line in stream), key=lambda row: row["history"])


def history(row: Row) -> Path:
    return FOLDER / f"{row['history']}.edn.gz"


def options(row: Row) -> CheckOptions:
    return CheckOptions(ww_deps=row["ww_deps"], sub_via=frozenset({row["sub_via"]}), jepsen_compatible=True)


def is_cycle(name: str) -> bool:
    """Types that come from cycles: Adya's and the consistency models'."""
    return name.startswith(("G0", "G1c", "G-", "G2", "PL-", "strong-PL-"))


def _theirs(witness: Mapping[str, Any]) -> str:
    return json.dumps(witness, sort_keys=True)


def _ours(witness: Mapping[str, Any]) -> str:
    """In Jepsen's shape: whole ops are {"op": index}."""

    def op(index: Any) -> Any:
        return None if index is None else {"op": index}

    shaped = {
        name: [op(index) for index in field] if name == "ops" else op(field) if name in OP_FIELDS else field
        for name, field in witness.items()
    }
    return json.dumps(shaped, sort_keys=True)


def _cycle(witness: Mapping[str, Any], components: list[list[int]]) -> str:
    """What must agree of a cycle: its type, its component; of a cycle-exists also the level and subgraph."""
    if "scc" in witness:
        return json.dumps({key: witness[key] for key in ("type", "not", "subgraph", "scc-size", "scc")})
    ops = {op["op"] if isinstance(op, dict) else op for op in witness["cycle"]}
    return json.dumps([witness["type"], [scc for scc in components if ops & set(scc)]])


def _cycles(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Differences in one row's cycles."""
    components = [
        sorted(witness["scc"])
        for name, reported in sorted(theirs.items())
        if name.endswith("-exists")
        for witness in reported["errs"]
    ]
    wrong = []
    for name in {name for name in {*ours, *theirs} if is_cycle(name)}:
        named = Counter(_cycle(witness, components) for witness in ours.get(name, {}).get("witnesses", ()))
        expected = Counter(_cycle(witness, components) for witness in theirs.get(name, {}).get("errs", ()))
        if named != expected:
            only = list(named - expected)[:3], list(expected - named)[:3]
            wrong.append(f"{name}: only ours {only[0]}, only theirs {only[1]}")
    return wrong


def _unseen(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    messages = {key: sorted(values) for key, values in ours["messages"].items()}
    return {**ours, "messages": messages} == dict(theirs)


def differences(row: Row, data: Mapping[str, Any]) -> list[str]:
    """What is not as Jepsen says; `data`: a result as plain data."""
    found = {a["name"]: a for a in data["anomalies"]}
    if "jepsen_crashes_with" in row:
        if row["jepsen_crashes_with"] == "no-writer-of-value":
            return [] if found.get("phantom-read", {}).get("bad") else ["no phantom-read"]
        return [] if data["valid"] is True and not found else [f"not a plain verdict: {data['valid']}, {found}"]
    wrong = []
    if data["valid"] != row["valid"]:
        wrong.append(f"valid {data['valid']}, expected {row['valid']}")
    expected = set(row["error_types"])
    if set(found) != expected:
        wrong.append(f"error types {sorted(found)}, expected {sorted(expected)}")
    bad = {name for name, anomaly in found.items() if anomaly["bad"]}
    expected_bad = set(row["bad_error_types"])
    if bad != expected_bad:
        wrong.append(f"bad error types {sorted(bad)}, expected {sorted(expected_bad)}")
    for name in expected & set(found):
        if is_cycle(name):
            continue
        if name == "unseen":
            if not _unseen(found[name]["witnesses"][0], row["errors"][name]):
                wrong.append(f"unseen {found[name]['witnesses'][0]}, expected {row['errors'][name]}")
            continue
        ours = Counter(map(_ours, found[name]["witnesses"]))
        theirs = Counter(map(_theirs, row["errors"][name]["errs"]))
        if ours != theirs:
            wrong.append(f"{name}: only ours {list(ours - theirs)[:3]}, only theirs {list(theirs - ours)[:3]}")
    return wrong + _cycles(found, row["errors"])
