"""Recovery divergence: a server's start differed from what the scenario expects.

Witness {act, node, log, expected, seen}, found by checker.checks.recovery.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import Guarantee

SOURCE = "KAFKA-615; Kafka's LogLoader; KIP-98"

ANOMALY = Anomaly(
    name="recovery-divergence",
    summary="A server that started after a crash or damage did not recover its logs as Kafka should.",
    source=SOURCE,
    kind="start",
    guarantee=Guarantee((), "a start recovers the segments after the recovery point, and nothing else", SOURCE),
)
