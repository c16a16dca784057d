"""Version does not start: a server did not start with another version, which starts on empty folders.

Witness {server, version, error}: what the server's log said last. Found by checker.checks.upgrade.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import Guarantee

SOURCE = "Kafka documentation, 1.5, Upgrading"

ANOMALY = Anomaly(
    name="version-does-not-start",
    summary="A server did not start with another version, although this version starts on empty folders with the same "
    "configuration.",
    source=SOURCE,
    kind="upgrade",
    guarantee=Guarantee((), "a new version starts on the data of the versions from which it can be upgraded", SOURCE),
    native=True,
)
