"""The anomalies that are cycles in the dependency graph: one row of the catalogue for each type of cycle.

`checker.cycles.types_and_levels` defines the types.

Kafka interleaves the writes of transactions, so most cycles are legal. Sources: Adya, Weak Consistency (1999);
Kingsbury and Alvaro, Elle (VLDB 2020); jepsen.tests.kafka (`allowed-error-types`).
"""

from __future__ import annotations

from typing import Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.counts_against_verdict import (
    forbidden,
    jepsen_allows_with_ww,
    jepsen_always_allows,
    jepsen_never_allows,
)
from checker.anomalies.cycle_prose import prose
from checker.anomalies.guarantees import DOCUMENTED, LOG, Guarantee, read_committed, transaction_log_kept
from checker.cycles.types_and_levels import EXISTS, LEVELS, SPECS

SOURCE: Final = "Adya, Weak Consistency (1999); Kingsbury and Alvaro, Elle (VLDB 2020)"

VISIBLE_ONCE_COMMITTED: Final = Guarantee(
    (read_committed, *LOG, transaction_log_kept),
    "a transaction's records become visible only when it commits, which is after all of its polls",
    f"{DOCUMENTED}: isolation.level; KIP-98; Adya, Weak Consistency (1999), G1c",
)
SENT_BEFORE_POLLED: Final = Guarantee(
    (),
    "no record is polled before it is sent",
    "Adya, Weak Consistency (1999), G1c; Kingsbury and Alvaro, Elle (VLDB 2020), real-time order",
)
GUARANTEES: Final = {
    "G1c": VISIBLE_ONCE_COMMITTED,
    "G1c-process": VISIBLE_ONCE_COMMITTED,
    "G1c-realtime": SENT_BEFORE_POLLED,
}
JEPSEN_ALLOWS: Final = {
    "G0": jepsen_always_allows,
    "G0-process": jepsen_always_allows,
    "G0-realtime": jepsen_always_allows,
    "PL-1-cycle-exists": jepsen_always_allows,
    "strong-PL-1-cycle-exists": jepsen_always_allows,
    "G1c": jepsen_allows_with_ww,
    "G1c-process": jepsen_allows_with_ww,
    "G1c-realtime": jepsen_allows_with_ww,
    "PL-2-cycle-exists": jepsen_allows_with_ww,
    "strong-PL-2-cycle-exists": jepsen_allows_with_ww,
}


def _row(name: str, summary: str) -> Anomaly:
    return Anomaly(
        name=name,
        summary=summary,
        source=SOURCE,
        kind="cycle",
        prose=prose,
        guarantee=GUARANTEES.get(name),
        bad=forbidden,
        jepsen_allows=JEPSEN_ALLOWS.get(name, jepsen_never_allows),
    )


CYCLES: Final[dict[str, Anomaly]] = {
    **{spec.name: _row(spec.name, spec.summary) for spec in SPECS},
    **{
        level.name + EXISTS: _row(level.name + EXISTS, f"The history has a cycle that {level.friendly} forbids")
        for level in LEVELS
    },
}
