"""The liveness check: judges what the run found to be stuck after healing, in the nemesis op `settle`.

A run that never looked (an older one, or one that ended early) is not judged here, and one whose looks failed because a
broker was missing is unknown. Liveness is only judged after healing, when no fault excuses a standstill.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from checker.anomalies.stuck import STUCK
from checker.kernels.missing_lines import lines_missing
from checker.kernels.unserved import COLUMNS, unserved
from checker.tables.buckets_of_a_history import Source
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict

SETTLE: Final = "settle"  # the op of nemesis.shared.liveness
SHOWN: Final = 8


def _looked(source: Source) -> tuple[Mapping[str, Any], int]:
    """Returns the value and the time of the last completed `settle`; ({}, 0) if there is none."""
    rows = [row for row in source.small("nemesis").to_pylist() if row["f"] == SETTLE and row["phase"] == "complete"]
    value = orjson.loads(rows[-1]["value"]) if rows else None
    return (value, rows[-1]["time_ns"]) if isinstance(value, dict) else ({}, 0)


def _unserved(source: Source, looked: Mapping[str, Any], since_ns: int) -> list[Mapping[str, Any]]:
    """Returns the clients that were never served after the cluster had settled."""
    clients = looked.get("clients")
    if "settled_s" not in looked or type(clients) is not int:
        return []
    return unserved(pa.concat_tables(source.parts[0].ops(*COLUMNS)), clients, since_ns)


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the last look at the healed cluster."""
    looked, at_ns = _looked(source)
    found: list[AnomalyFound] = []
    whole = not lines_missing(source.meta)  # a missing line may contain what shows that something went on
    stuck = [row for row in looked.get("stuck") or () if isinstance(row, dict)] if whole else []
    clients = _unserved(source, looked, at_ns) if whole else []
    for kind, anomaly in STUCK.items():
        rows: list[Mapping[str, Any]] = [
            {**{name: row.get(name) for name in ("where", "state", "logged")}, "waited_s": looked.get("waited_s", 0)}
            for row in stuck
            if row.get("kind") == kind
        ]
        rows += clients if kind == "client" else ()
        if rows:
            bad = anomaly.bad(rows, options)
            promise = anomaly.promised(options.settings)
            found.append(AnomalyFound(anomaly.name, anomaly.summary, len(rows), bad, promise, tuple(rows[:SHOWN])))
    reasons = []
    if looked.get("why"):
        reasons.append(f"it is unknown whether the cluster settled after healing: {looked['why']}")
    answers = {anomaly.promised for anomaly in found}
    promised = True if True in answers else None if None in answers or not answers else False
    verdict: Verdict = "invalid" if found else "unknown" if reasons else "valid"
    figures = {name: looked[name] for name in ("settled_s", "waited_s", "count") if name in looked}
    return Result(verdict, promised, tuple(reasons), tuple(found), {"liveness": figures} if figures else {}, VERSION)
