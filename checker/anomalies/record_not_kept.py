"""Record not kept: a record that was acknowledged before an upgrade is missing or another one after it.

Witness {offset, sent, found}. Found by checker.checks.upgrade.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, LOG, Guarantee

SOURCE = f"{DOCUMENTED}: Upgrading"

ANOMALY = Anomaly(
    name="record-not-kept",
    summary="A record that was acknowledged before an upgrade is missing or another one after it.",
    source=SOURCE,
    kind="upgrade",
    guarantee=Guarantee(LOG, "an acknowledged record stays what it is in an upgrade", SOURCE),
    native=True,
)
