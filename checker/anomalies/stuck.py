"""What stays stuck although all faults are healed and all brokers are registered (checker.checks.liveness).

The run looks at its partitions again and again after healing. What every look within 30 s found in the same state is
stuck. Witness {where, state, waited_s, logged}: the partition, what was seen, for how long, and the last lines that the
brokers logged about it. A record of an unfinished transaction blocks read_committed consumers at the last stable offset
(KIP-98); KIP-890 describes how transactions hang. Sources: KIP-98; KIP-890; Kafka documentation, Design, 4.7.
"""

from __future__ import annotations

from typing import Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, LOG, Guarantee, group_log_kept, transaction_log_kept
from checker.anomalies.prose import Phrases, Witness

LED: Final = Guarantee(
    LOG,
    "a partition has a leader as long as one in-sync replica is available",
    f"{DOCUMENTED}: Design, 4.7; KIP-966",
)
SERVED: Final = Guarantee(
    LOG,
    "brokers that have settled serve every client",
    f"{DOCUMENTED}: Design, 4.7; retries, delivery.timeout.ms",
)
SETTLED: Final = Guarantee(
    (*LOG, group_log_kept),
    "a group removes members that are gone, and assigns the partitions to those that poll",
    f"{DOCUMENTED}: session.timeout.ms, max.poll.interval.ms; KIP-848",
)
ENDED: Final = Guarantee(
    (*LOG, transaction_log_kept),
    "the coordinator ends every transaction, at the latest after its timeout",
    f"{DOCUMENTED}: transaction.timeout.ms; KIP-98; KIP-890",
)


def prose(witness: Witness, phrases: Phrases) -> str:
    lines = [f"{node}: {line}" for node, logged in sorted(witness.get("logged", {}).items()) for line in logged[-1:]]
    said = f"; the brokers' last lines about it: {' | '.join(lines)}" if lines else ""
    excuse = f"; {witness['excuse']}" if witness.get("excuse") else ""
    return f"{witness['where']}: {witness['state']}, for {witness['waited_s']:g} s after healing{excuse}{said}"


def _row(name: str, summary: str, guarantee: Guarantee) -> Anomaly:
    return Anomaly(name=name, summary=summary, source=guarantee.source, kind="stuck", prose=prose, guarantee=guarantee)


# By the kind of the violated condition (nemesis.shared.liveness).
STUCK: Final[dict[str, Anomaly]] = {
    "partition": _row("stuck-partition", "A partition stays without a leader after all faults are healed.", LED),
    "replica": _row("stuck-replica", "A replica does not become in sync again after all faults are healed.", LED),
    "transaction": _row(
        "stuck-transaction",
        "The last stable offset of a partition does not move: a transaction is never ended (a hanging transaction).",
        ENDED,
    ),
    "group": _row("stuck-group", "The consumer group does not settle after all faults are healed.", SETTLED),
    "client": _row(
        "stuck-client",
        "A client is never served, its producer never sends again, or it stops reading before the end of a log; the "
        "healthy cluster serves others.",
        SERVED,
    ),
}
