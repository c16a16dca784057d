"""What settings promise: from client and broker settings to the anomalies that they forbid.

A guarantee holds when each of its conditions does; a condition on a setting that is not known leaves the
promise unknown (None). Guarantees of several anomalies are here, others in the anomaly's own module.
Sources: Kafka's documentation of producer, consumer, topic and broker configurations (4.1); "Message Delivery
Semantics" (Design, 4.6); and STUDY. An anomaly without a guarantee is forbidden by none: G0 and
int-send-skip, because Kafka does not isolate the writes of transactions from each other; cycles of rw edges,
because no read is promised to be the latest. Deletion by age, size or DeleteRecords needs no condition: the
kernels excuse it where it is on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.model.check_options import Settings

Condition = Callable[[Settings], bool | None]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What it forbids does not happen where all conditions hold."""

    conditions: tuple[Condition, ...]
    says: str
    source: str

    def holds(self, settings: Settings) -> bool | None:
        """Whether the settings make it hold; None when that hangs on a setting that is not known."""
        answers = {condition(settings) for condition in self.conditions}
        if False in answers:
            return False
        return None if None in answers else True


def acks_all(settings: Settings) -> bool | None:
    """Acknowledged only when every in-sync replica has it. Idempotence and transactions require it.

    Where there is one replica, its leader's acknowledgement is that of all.
    """
    if settings.acks == "1" and settings.replication is not None:
        return settings.replication == 1
    return None if settings.acks is None else settings.acks in ("all", "-1")


def two_copies(settings: Settings) -> bool | None:
    """An acknowledged record is on two nodes at least, so one may be lost; or on disk (flush.messages).

    On more nodes than lost their data by faults: damage, and power cuts of what was not flushed.
    """
    flushed = settings.flush_messages == 1
    gone = settings.damaged_copies + (0 if flushed else settings.unsynced_copies)
    if flushed and not gone:
        return True
    if settings.replication is None or settings.min_insync_replicas is None:
        return None
    copies = min(settings.replication, settings.min_insync_replicas)
    return copies > gone if gone else copies >= 2


def clean_election(settings: Settings) -> bool | None:
    """Only in-sync replicas become leader."""
    return None if settings.unclean_election is None else not settings.unclean_election


def exactly_once_log(settings: Settings) -> bool | None:
    """A send reaches the log once at most: sequence numbers.

    Without them, no number of retries is a promise: librdkafka sends again what was answered with NOT_LEADER
    and the like even where retries are off, and does not count it.
    """
    if settings.idempotence or settings.txn:
        return True
    return None if settings.idempotence is None else False


def in_order(settings: Settings) -> bool | None:
    """A batch that is sent again does not pass another: sequence numbers, or one request in flight."""
    if settings.idempotence or settings.txn or settings.max_in_flight == 1:
        return True
    return None if settings.idempotence is None else False


def transactions(settings: Settings) -> bool | None:
    """Every op is a transaction."""
    return settings.txn


def read_committed(settings: Settings) -> bool | None:
    """Consumers do not see uncommitted records. Without transactions there are none."""
    if settings.txn is False:
        return True
    return None if settings.isolation_level is None else settings.isolation_level == "read_committed"


def one_reader(settings: Settings) -> bool | None:
    """A partition has one reader, which goes through it in order: assigned by hand, or by a group.

    The protocols classic (the default) and consumer (KIP-848) do so; share groups (KIP-932) do not.
    """
    if settings.sub_via == frozenset({"assign"}):
        return True
    return settings.group_protocol in (None, "classic", "consumer")


def not_compacted(settings: Settings) -> bool | None:
    """No record goes because a later one has its key. The default policy deletes old segments only."""
    return "compact" not in (settings.cleanup_policy or "delete")


DURABLE: Final = (acks_all, two_copies, clean_election)
DOCUMENTED: Final = "Kafka 4.1 documentation"
STUDY: Final = "a study of Kafka's delivery at the Ural Federal University"

KEPT: Final = Guarantee(
    DURABLE,
    "an acknowledged record stays where it is while one in-sync replica lives",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, flush.messages; {STUDY}, tests 1, 2",
)
SENT_IN_ORDER: Final = Guarantee(
    (in_order, exactly_once_log, *DURABLE),
    "records of one producer stand in the order in which they were sent",
    f"{DOCUMENTED}: max.in.flight.requests.per.connection, enable.idempotence",
)
READ_IN_ORDER: Final = Guarantee(
    (exactly_once_log, one_reader),
    "a consumer reads a partition in order, each record once between rebalances, and begins where its "
    "group has committed; a duplicate shows as a repeat",
    f"{DOCUMENTED}: Design, 4.5 The Consumer; group.protocol; KIP-848; KIP-932",
)
READ_WHOLLY: Final = Guarantee(
    (exactly_once_log, one_reader, not_compacted),
    "a consumer reads every record of a partition that is not deleted; a duplicate shows as a skip",
    f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.8 Log Compaction; cleanup.policy",
)
