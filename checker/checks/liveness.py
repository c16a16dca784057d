"""The liveness check: judges what the run found to be stuck after healing, in its ops `settle` and `settle-group`.

A run that never looked (an older one, or one that ended early) is not judged here, and one whose looks failed because a
broker was missing is unknown. Liveness is only judged after healing, when no fault excuses a standstill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.stuck import STUCK
from checker.kernels.missing_lines import lines_missing
from checker.kernels.stalled import stalled
from checker.kernels.stuck_producers import stuck_producers
from checker.kernels.unserved import COLUMNS, unserved
from checker.tables.buckets_of_a_history import Source
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict

SETTLE: Final = "settle"  # the op of nemesis.shared.liveness
SETTLE_GROUP: Final = "settle-group"  # the op of nemesis.shared.group_liveness
SHOWN: Final = 8
FIELDS: Final = ("where", "state", "logged", "excuse")
Row: TypeAlias = Mapping[str, Any]


def _looked(source: Source, f: str) -> tuple[Row, int]:
    """Returns the value and the time of the last completed op `f`; ({}, 0) if there is none."""
    rows = [row for row in source.small("nemesis").to_pylist() if row["f"] == f and row["phase"] == "complete"]
    value = orjson.loads(rows[-1]["value"]) if rows else None
    return (value, rows[-1]["time_ns"]) if isinstance(value, dict) else ({}, 0)


def _of_clients(source: Source, looked: Row, since_ns: int, txn: bool | None) -> list[Row]:
    """Returns the clients that, after the cluster had settled, were never served, had a producer that never sent again,
    or stopped reading before the end of a log.

    With transactions, the end is not judged: a log may end with markers, and not every library says that it has read
    them.
    """
    clients = looked.get("clients")
    if "settled_s" not in looked or type(clients) is not int or clients < 1:
        return []
    ops = pa.concat_tables(source.parts[0].ops(*COLUMNS))
    rows = [*unserved(ops, clients, since_ns), *stuck_producers(ops, clients, since_ns)]
    return [*rows, *stalled(source.small("ends"), clients, since_ns)] if txn is False else rows


def _stuck(looked: Row, kind: str) -> list[Row]:
    """Returns the witnesses of a kind that an op found."""
    rows = [row for row in looked.get("stuck") or () if isinstance(row, dict) and row.get("kind") == kind]
    waited_s = looked.get("waited_s", 0)
    return [{**{name: row[name] for name in FIELDS if name in row}, "waited_s": waited_s} for row in rows]


def _found(anomaly: Anomaly, rows: Sequence[Row], options: CheckOptions) -> AnomalyFound:
    """Returns the anomaly with its witnesses. Nothing is promised if something else excuses each of them."""
    promise = anomaly.promised(options.settings)
    if all(row.get("excuse") for row in rows):
        promise = False
    bad = anomaly.bad(rows, options)
    return AnomalyFound(anomaly.name, anomaly.summary, len(rows), bad, promise, tuple(rows[:SHOWN]))


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the last look at the healed cluster, and the last look at its consumer group."""
    looked, at_ns = _looked(source, SETTLE)
    group, _ = _looked(source, SETTLE_GROUP)
    found: list[AnomalyFound] = []
    whole = not lines_missing(source.meta)  # a missing line may contain what shows that something went on
    for kind, anomaly in STUCK.items():
        rows = [*_stuck(looked, kind), *_stuck(group, kind)] if whole else []
        if whole and kind == "client":
            rows += _of_clients(source, looked, at_ns, options.settings.txn)
        if rows:
            found.append(_found(anomaly, rows, options))
    reasons = []
    if looked.get("why"):
        reasons.append(f"it is unknown whether the cluster settled after healing: {looked['why']}")
    if group.get("why"):
        reasons.append(f"it is unknown whether the consumer group settled at the end: {group['why']}")
    answers = {anomaly.promised for anomaly in found}
    promised = True if True in answers else None if None in answers or not answers else False
    verdict: Verdict = "invalid" if found else "unknown" if reasons else "valid"
    figures = {name: looked[name] for name in ("settled_s", "waited_s", "count") if name in looked}
    figures |= {f"group_{name}": group[name] for name in ("settled_s", "waited_s") if name in group}
    return Result(verdict, promised, tuple(reasons), tuple(found), {"liveness": figures} if figures else {}, VERSION)
