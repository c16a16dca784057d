"""Feature regression: a finalized feature went back to a lower level without a request to lower it.

Witness {server, feature, level, epoch, before, at}: `server` reported `level` at `epoch` of the metadata log, although
the feature had the level `before`, according to `at`. Found by checker.checks.upgrade.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import Guarantee

SOURCE = "KIP-584; Kafka documentation, 1.5, Upgrading"

ANOMALY = Anomaly(
    name="feature-regression",
    summary="A finalized feature went back to a lower level without a request to lower it.",
    source=SOURCE,
    kind="upgrade",
    guarantee=Guarantee((), "a finalized level stays until UpdateFeatures changes it", SOURCE),
    native=True,
)
