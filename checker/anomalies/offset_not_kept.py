"""Offset not kept: an offset that a group had committed before an upgrade is another one, or is gone, after it.

Witness {group, committed, found, when}. Found by checker.checks.upgrade.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, Guarantee, group_log_kept

SOURCE = f"{DOCUMENTED}: Upgrading; KIP-848; KIP-98"

ANOMALY = Anomaly(
    name="offset-not-kept",
    summary="An offset that a group had committed before an upgrade is another one, or is gone, after it.",
    source=SOURCE,
    kind="upgrade",
    guarantee=Guarantee((group_log_kept,), "a group keeps its committed offsets in an upgrade", SOURCE),
    native=True,
)
