"""The anomalies of KRaft's metadata log, found by checker.checks.metadata (see checker.disk.metadata).

Witness {place, offset, seen, expected}; `offset` is one of the metadata log, or None.

What is committed to the log survives crashes and power failures, because servers flush it before they acknowledge it
(KIP-595), unlike records of topics. It is not guaranteed if a fault destroys a server's copy.
"""

from __future__ import annotations

from typing import Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import Guarantee
from checker.anomalies.prose import Phrases, Witness
from checker.disk.metadata import witnesses
from harness.model.check_options import Settings
from harness.model.values_as_text import joined


def prose(witness: Witness, phrases: Phrases) -> str:
    offset = witness.get("offset")
    at = "" if offset is None else f", offset {offset} of the metadata log"
    return joined(f"where: {witness['place']}{at}", f"seen: {witness['seen']}", f"expected: {witness['expected']}")


def not_damaged(settings: Settings) -> bool | None:
    """Returns whether no fault destroyed a server's data."""
    return None if settings.damaged_copies else True


def _row(name: str, summary: str, says: str, source: str) -> Anomaly:
    guarantee = Guarantee((not_damaged,), says, source)
    return Anomaly(name=name, summary=summary, source=source, kind="metadata", prose=prose, guarantee=guarantee)


_COMMITTED: Final = "what is committed to the metadata log is never lost or changed"

METADATA: Final[dict[str, Anomaly]] = {
    row.name: row
    for row in (
        _row(
            witnesses.DIVERGENCE,
            "Two servers have different records at an offset of the metadata log that is known to be committed.",
            _COMMITTED,
            "KIP-595",
        ),
        _row(
            witnesses.LOST,
            "No server has the end of the metadata log that a leader said was committed.",
            _COMMITTED,
            "KIP-595",
        ),
        _row(
            witnesses.TWO_LEADERS,
            "An epoch of the metadata quorum has more than one leader.",
            "an epoch has at most one leader",
            "KIP-595",
        ),
        _row(
            witnesses.WATERMARK,
            "The high watermark of the metadata log went back while the same server led.",
            "the high watermark of a leader does not go back",
            "KIP-595",
        ),
        _row(
            witnesses.SNAPSHOT,
            "A snapshot of the metadata is damaged, or differs from the state that the log before it produces.",
            "a snapshot contains the state at its offset, and is synced before it gets its name",
            "KIP-630; KAFKA-15312",
        ),
        _row(
            witnesses.ISR,
            "The ISR of a partition contains a broker that has no replica.",
            "the ISR is a subset of the replicas",
            "Kafka documentation: Design, 4.7 Replication; KIP-497",
        ),
        _row(
            witnesses.ELECTION,
            "A partition's new leader was neither in the ISR nor eligible, and the election was not unclean.",
            "without an unclean election, leaders come from the ISR or from the eligible leader replicas",
            "Kafka documentation: Design, 4.7 Replication; KIP-704; KIP-966",
        ),
        _row(
            witnesses.EPOCHS,
            "A server used or reported a leader epoch that the metadata log does not have, or has with another leader.",
            "the metadata log determines the leader epochs",
            "KIP-101; KIP-320; KIP-631",
        ),
        _row(
            witnesses.ADMIN,
            "A topic or setting that the cluster acknowledged is not in the metadata log.",
            "an acknowledged change of the metadata is committed",
            "KIP-631; Kafka documentation: Admin API",
        ),
    )
}
