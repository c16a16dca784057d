"""Transaction not kept: a transaction that was open before an upgrade could not be committed, or only in part.

Witness {commit, open_s, found}: the answer to the commit, and what was found afterwards. Found by
checker.checks.upgrade.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, LOG, Guarantee, transaction_log_kept

SOURCE = f"{DOCUMENTED}: Upgrading; KIP-98; KIP-890"

ANOMALY = Anomaly(
    name="transaction-not-kept",
    summary="A transaction that was open before an upgrade could not be committed after it, or only in part.",
    source=SOURCE,
    kind="upgrade",
    guarantee=Guarantee(
        (transaction_log_kept, *LOG),
        "an open transaction survives the restart of its coordinator, until its timeout",
        SOURCE,
    ),
    native=True,
)
