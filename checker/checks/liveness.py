"""The liveness check: judges what the run found to be stuck after healing, in the nemesis op `settle`.

A run that never looked (an older one, or one that ended early) is not judged here, and one whose looks failed because a
broker was missing is unknown. Liveness is only judged after healing, when no fault excuses a standstill.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from checker.anomalies.stuck import STUCK
from checker.kernels.missing_lines import lines_missing
from checker.tables.buckets_of_a_history import Source
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict

SETTLE: Final = "settle"  # the op of nemesis.shared.liveness
SHOWN: Final = 8


def _looked(source: Source) -> Mapping[str, Any] | None:
    """Returns the value of the last completed `settle`; None if there is none."""
    rows = source.small("nemesis").to_pylist()
    values = [orjson.loads(row["value"]) for row in rows if row["f"] == SETTLE and row["phase"] == "complete"]
    last = values[-1] if values else None
    return last if isinstance(last, dict) else None


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the last look at the healed cluster."""
    looked = _looked(source) or {}
    found: list[AnomalyFound] = []
    stuck = looked.get("stuck") if not lines_missing(source.meta) else None
    for kind, anomaly in STUCK.items():
        rows = [
            {**{name: row.get(name) for name in ("where", "state", "logged")}, "waited_s": looked.get("waited_s", 0)}
            for row in stuck or ()
            if isinstance(row, dict) and row.get("kind") == kind
        ]
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
