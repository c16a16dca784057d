"""Replica difference: two replicas of a partition have different bytes below the high watermark.

If the settings guarantee that records are kept, they also guarantee that replicas are equal. Witness {log, node, other,
offset, has, other_has}, found by checker.checks.replicas.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, STAYS

ANOMALY = Anomaly(
    name="replica-difference",
    summary="Replicas of a partition have different bytes below its high watermark.",
    source=f"{DOCUMENTED}: Design, 4.7 Replication",
    kind="disk",
    guarantee=STAYS,
)
