"""Recovery divergence: a server's start did not do what the scenario expects of it.

Witness {act, node, log, expected, seen}: checker.checks.recovery.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import Guarantee

SOURCE = "KAFKA-615; Kafka's LogLoader; KIP-98"

ANOMALY = Anomaly(
    name="recovery-divergence",
    summary="A server's start after a crash, or after damage, did not do what Kafka's recovery should do.",
    source=SOURCE,
    kind="start",
    guarantee=Guarantee((), "a start recovers what lies behind the recovery point, and nothing else", SOURCE),
)
