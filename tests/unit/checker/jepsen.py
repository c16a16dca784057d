"""Jepsen's own answers in tests/histories/jepsen, and how ours are compared with them.

Only the types that are not cycles. Everything must agree: error types, bad error types, every witness.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checker.witness import OP_FIELDS
from harness.model.options import CheckOptions

FOLDER: Final = Path(__file__).parents[2] / "histories" / "jepsen"

# Where ours may differ, and why. `jepsen_crashes_with` -> what ours says.
CRASHES: Final = {
    "no-writer-of-value": "phantom-read: a polled value that nobody sent is reported, and the rest is judged",
    "java.lang.IndexOutOfBoundsException": "polls that hold nothing are no error; the plain verdict is given",
}

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
        name: [op(index) for index in held] if name == "ops" else op(held) if name in OP_FIELDS else held
        for name, held in witness.items()
    }
    return json.dumps(shaped, sort_keys=True)


def _unseen(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    messages = {key: sorted(held) for key, held in ours["messages"].items()}
    return {**ours, "messages": messages} == dict(theirs)


def differences(row: Row, data: Mapping[str, Any]) -> list[str]:
    """What is not as Jepsen says; `data`: a result as plain data."""
    found = {a["name"]: a for a in data["anomalies"] if not is_cycle(a["name"])}
    if "jepsen_crashes_with" in row:
        if row["jepsen_crashes_with"] == "no-writer-of-value":
            return [] if found.get("phantom-read", {}).get("bad") else ["no phantom-read"]
        return (
            [] if data["valid"] is True and not found else [f"not a plain verdict: {data['valid']}, {found}"]
        )
    wrong = []
    expected = {name for name in row["error_types"] if not is_cycle(name)}
    if set(found) != expected:
        wrong.append(f"error types {sorted(found)}, expected {sorted(expected)}")
    bad = {name for name, anomaly in found.items() if anomaly["bad"]}
    expected_bad = {name for name in row["bad_error_types"] if not is_cycle(name)}
    if bad != expected_bad:
        wrong.append(f"bad error types {sorted(bad)}, expected {sorted(expected_bad)}")
    for name in expected & set(found):
        if name == "unseen":
            if not _unseen(found[name]["witnesses"][0], row["errors"][name]):
                wrong.append(f"unseen {found[name]['witnesses'][0]}, expected {row['errors'][name]}")
            continue
        ours = Counter(map(_ours, found[name]["witnesses"]))
        theirs = Counter(map(_theirs, row["errors"][name]["errs"]))
        if ours != theirs:
            wrong.append(
                f"{name}: only ours {list(ours - theirs)[:3]}, only theirs {list(theirs - ours)[:3]}"
            )
    return wrong
