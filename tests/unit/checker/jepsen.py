"""Jepsen's own answers in tests/histories/jepsen, and the comparison with ours.

The verdict, error types, bad error types, every witness, and the worst lag must agree, except for DIFFERENCES.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checker.verdict import jepsen_shape
from harness.model.check_options import CheckOptions

FOLDER: Final = Path(__file__).parents[2] / "histories" / "jepsen"

EMPTY_GRAPH: Final = "empty-transaction-graph"
# Where ours may differ, with the reasons.
DIFFERENCES: Final = {
    "no-writer-of-value": "Jepsen crashes; ours reports a phantom-read, and judges the rest",
    "java.lang.IndexOutOfBoundsException": "Jepsen crashes at polls that hold nothing; ours answers",
    EMPTY_GRAPH: "Elle's word for ops of which none depends on another, which Jepsen counts as bad: it says nothing "
    "against the history, and ours judges the rest",
    "lag-nil-send-a": "an op that sends one record with an offset and then one without: Jepsen's lag forgets the "
    "first offset, ours does not",
    "f": "polls inside a `send` or sends inside a `poll`: Jepsen, which names its ops after what they do, goes by `f` "
    "and does not see them, ours judges what was done; no row has them",
    "cycle": "Elle searches each component for a second; where that is not enough it says so and shows any cycle, "
    "ours shows a short one; no row is so large",
}
# Rows whose worst lag is not compared.
OTHER_LAG: Final = frozenset({"lag-nil-send-a"})
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
    """Types that come from cycles: Adya's anomalies and the consistency models."""
    return name.startswith(("G0", "G1c", "G-", "G2", "PL-", "strong-PL-"))


def _theirs(witness: Mapping[str, Any]) -> str:
    return json.dumps(witness, sort_keys=True)


def _ours(witness: Mapping[str, Any]) -> str:
    return json.dumps(jepsen_shape.witness(witness), sort_keys=True)


def _unseen(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    messages = {key: sorted(values) for key, values in ours["messages"].items()}
    return {**ours, "messages": messages} == dict(theirs)


def differences(row: Row, data: Mapping[str, Any]) -> list[str]:
    """Differences from Jepsen's answer; `data`: a result as plain data."""
    found = {a["name"]: a for a in data["anomalies"]}
    if "jepsen_crashes_with" in row:
        if row["jepsen_crashes_with"] == "no-writer-of-value":
            return [] if found.get("phantom-read", {}).get("bad") else ["no phantom-read"]
        return [] if data["valid"] is True and not found else [f"not a plain verdict: {data['valid']}, {found}"]
    wrong = []
    expected_bad = set(row["bad_error_types"]) - {EMPTY_GRAPH}
    if data["valid"] is not (not expected_bad):
        wrong.append(f"valid {data['valid']}, expected {not expected_bad}")
    expected = set(row["error_types"]) - {EMPTY_GRAPH}
    if set(found) != expected:
        wrong.append(f"error types {sorted(found)}, expected {sorted(expected)}")
    bad = {name for name, anomaly in found.items() if anomaly["bad"]}
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
            wrong.append(f"{name}: only ours {list(ours - theirs)[:3]}, only theirs {list(theirs - ours)[:3]}")
    return wrong
