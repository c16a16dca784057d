"""Checks whether the replicas of each partition, as they are on disk after a run, are equal up to the high watermark.

This is possible for runs that kept the brokers' data (RUN/data/<node>/); see checker.disk.comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checker.anomalies.replica_difference import ANOMALY
from checker.disk import data_folder
from checker.disk.comparison import Comparison, compare
from harness.model.check_options import Settings
from harness.model.check_result import AnomalyFound

SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison.

    anomalies   the replicas that differ
    reasons     the reasons for `unknown`: which replicas could not be compared completely
    figures     one entry per partition
    """

    anomalies: tuple[AnomalyFound, ...] = ()
    reasons: tuple[str, ...] = ()
    figures: tuple[dict[str, Any], ...] = ()


def look(run: Path | None, settings: Settings) -> Compared:
    """Compares the replicas that a run kept. If it kept none, the result only contains the reason for `unknown`."""
    kept = run / "data" if run is not None else None
    nodes = data_folder.nodes(kept) if kept is not None and kept.is_dir() else {}
    if not nodes:
        return Compared(reasons=("the replicas were not compared: the run kept no data of its brokers",))
    names = sorted({at for data in nodes.values() for at in data_folder.partitions(data)})
    return judged([compare(nodes, *at) for at in names], settings)


def judged(compared: Sequence[Comparison], settings: Settings) -> Compared:
    """Turns comparisons into anomalies, reasons and figures."""
    found = [
        {
            "log": f"{one.topic}-{one.partition}",
            "node": each.node,
            "other": each.reference,
            "offset": each.offset,
            "has": each.has,
            "other_has": each.should,
        }
        for one in compared
        for each in one.differences
        if each.committed is not False
    ]
    promise = ANOMALY.promised(settings)
    anomaly = AnomalyFound(ANOMALY.name, ANOMALY.summary, len(found), True, promise, tuple(found[:SHOWN]))
    behind = [
        f"the replica of {one.topic}-{one.partition} on {node} ends at {end}, below the high watermark "
        f"{one.high_watermark}"
        for one in compared
        for node, end in one.behind.items()
    ]
    behind += [
        f"only {len(one.replicas)} of {settings.replication} replicas of {one.topic}-{one.partition} were kept"
        for one in compared
        if one.absent and len(one.replicas) < (settings.replication or 0)
    ]
    return Compared((anomaly,) if found else (), tuple(behind), tuple(_figures(one) for one in compared))


def _figures(one: Comparison) -> dict[str, Any]:
    return {
        "log": f"{one.topic}-{one.partition}",
        "same": one.same,
        "compared": list(one.compared),
        "high_watermark": one.high_watermark,
        "ends": {node: replica.end for node, replica in one.replicas.items()},
        "flaws": [f"{node}: {flaw}" for node, flaw in one.flaws[:SHOWN]],
    }
