"""What settings promise: from client and broker settings, and what faults leave of them, to what they forbid.

A guarantee holds when each of its conditions does; a condition on something that is not known leaves the
promise unknown (None). Guarantees of several anomalies are here, others in the anomaly's own module. What each
of them promises under which settings and faults is a table: tests/unit/checker/promises.py.

Nearly all of them rest on logs that keep what stands below their high watermark. Kafka gives that while an
in-sync replica lives and only in-sync replicas lead (Design, 4.7). A server that is killed keeps its copy,
which the operating system still holds; so where no fault has taken copies, one replica is enough. Where one
has, nothing that is read later is promised: what was cut off takes the places of records, sequence numbers,
the markers of transactions and the commits of groups with it.

Sources: Kafka's documentation of producer, consumer, topic and broker configurations (4.1); "Replication" and
"Message Delivery Semantics" (Design, 4.6, 4.7); KIP-966; and STUDY. An anomaly without a guarantee is forbidden
by none: G0 and int-send-skip, because Kafka does not isolate the writes of transactions from each other; cycles
of rw edges, because no read is promised to be the latest. Deletion by age, size or DeleteRecords needs no
condition: the kernels excuse it where it is on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.model.check_options import InternalTopic, Settings

Condition = Callable[[Settings], bool | None]
IN_FLIGHT_MOST: Final = 5  # with idempotence
RETENTION: Final = (
    "retention.ms",
    "retention.bytes",
    *(f"log.retention.{limit}" for limit in ("ms", "minutes", "hours", "bytes")),
)
PRODUCER_ID_KEPT_MS: Final = 24 * 60 * 60 * 1000  # the broker's default


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What it forbids does not happen where all conditions hold."""

    conditions: tuple[Condition, ...]
    says: str
    source: str

    def holds(self, settings: Settings) -> bool | None:
        """Whether the settings make it hold; None when that hangs on a setting that is not known."""
        return every(*(condition(settings) for condition in self.conditions))


def every(*answers: bool | None) -> bool | None:
    """Whether all hold: False where one does not, else None where one is not known."""
    if False in answers:
        return False
    return None if None in answers else True


# --- logs ---------------------------------------------------------------------------------------------


def acks_all(settings: Settings) -> bool | None:
    """Acknowledged only when every in-sync replica has it. Idempotence and transactions require it.

    Where there is one replica, its leader's acknowledgement is that of all.
    """
    if settings.acks == "1" and settings.replication is not None:
        return settings.replication == 1
    return None if settings.acks is None else settings.acks in ("all", "-1")


def copies_kept(settings: Settings) -> bool | None:
    """Of what all in-sync replicas have, a copy is left on one that may lead."""
    return _kept(settings, settings.replication, settings.min_insync_replicas, flushed=settings.flush_messages == 1)


def _kept(settings: Settings, replication: int | None, min_isr: int | None, flushed: bool) -> bool | None:
    """Whether faults left a copy of a log, by its settings.

    What one replica alone still had in sync is gone with its disk's cache: it leads again, and the others
    follow it. With eligible leader replicas those that left while fewer than `min.insync.replicas` were in
    sync are known, and lead instead of a server that did not end cleanly (KIP-966). Servers look at the end of
    a log when they start, and believe the rest: whether a damaged copy is mended from the others hangs on
    what was damaged.
    """
    damaged, unsynced = settings.damaged_copies, 0 if flushed else settings.unsynced_copies
    if not damaged and not unsynced:
        return None if settings.replication is None else True  # without a plan the faults are not known either
    known = [count for count in (replication, min_isr) if count is not None]
    if known and damaged + unsynced >= min(known):
        return False
    mended = None if damaged else True
    return every(mended, settings.eligible_leader_replicas, True if len(known) == 2 else None)


def clean_election(settings: Settings) -> bool | None:
    """Only in-sync replicas become leader."""
    return None if settings.unclean_election is None else not settings.unclean_election


def group_log_kept(settings: Settings) -> bool | None:
    """What a group has committed stays committed: the log of __consumer_offsets is kept.

    Those of transactions hang on the log of the transactions as well.
    """
    topic = settings.offsets_topic
    acks = settings.commit_acks in (None, "all", "-1") or topic.replication == 1
    of_transactions = True if settings.txn is False else transaction_log_kept(settings)
    return every(acks, _internal(settings, topic), clean_election(settings), of_transactions)


def transaction_log_kept(settings: Settings) -> bool | None:
    """What was decided of a transaction stays decided: the log of __transaction_state is kept."""
    if settings.txn is False:
        return True
    return every(_internal(settings, settings.transactions_topic), clean_election(settings))


def _internal(settings: Settings, topic: InternalTopic) -> bool | None:
    kept = _kept(settings, topic.replication, topic.min_insync_replicas, flushed=topic.flush_messages == 1)
    return False if topic.unclean_election else kept


# --- producers ----------------------------------------------------------------------------------------


def exactly_once_log(settings: Settings) -> bool | None:
    """A send reaches the log once at most: sequence numbers, which brokers remember.

    Without them, no number of retries is a promise: librdkafka sends again what was answered with NOT_LEADER
    and the like even where retries are off, and does not count it.
    """
    if settings.acks is not None and settings.acks not in ("all", "-1"):
        return False  # sequence numbers need it
    if not (settings.idempotence or settings.txn):
        return None if settings.idempotence is None else False
    if settings.max_in_flight is not None and settings.max_in_flight > IN_FLIGHT_MOST:
        return False
    remembered_ms = settings.producer_id_expiration_ms
    return None if remembered_ms is not None and remembered_ms < PRODUCER_ID_KEPT_MS else True


def in_order(settings: Settings) -> bool | None:
    """A batch that is sent again does not pass another: sequence numbers, or one request in flight."""
    if settings.idempotence or settings.txn or settings.max_in_flight == 1:
        return True
    return None if settings.idempotence is None else False


def transactions(settings: Settings) -> bool | None:
    """Every op is a transaction."""
    return settings.txn


# --- consumers ----------------------------------------------------------------------------------------


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


def place_kept(settings: Settings) -> bool | None:
    """Whoever reads a partition next begins where the group has committed; by hand there is no group."""
    return True if settings.sub_via == frozenset({"assign"}) else group_log_kept(settings)


def not_compacted(settings: Settings) -> bool | None:
    """No record goes because a later one has its key. The default policy deletes old segments only."""
    return "compact" not in (settings.cleanup_policy or "delete")


def nothing_removed(settings: Settings) -> bool | None:
    """No record goes by its age, by the size of its log, on request, or by compaction.

    What a broker's own limit removes hangs on how long a run is, and how large.
    """
    limits = {settings.broker[name] for name in RETENTION if name in settings.broker}
    return every(not settings.deletes, not_compacted(settings), None if limits - {"-1"} else True)


def damage_noticed(settings: Settings) -> bool | None:
    """No file was damaged, or consumers verify checksums."""
    return settings.check_crcs if settings.damaged_copies else True


LOG: Final = (copies_kept, clean_election)
DURABLE: Final = (acks_all, *LOG)
DOCUMENTED: Final = "Kafka 4.1 documentation"
STUDY: Final = "a study of Kafka's delivery at the Ural Federal University"

STAYS: Final = Guarantee(
    DURABLE,
    "an acknowledged record stays where it is while one in-sync replica lives",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, flush.messages; KIP-966; "
    f"{STUDY}, tests 1, 2",
)
KEPT: Final = Guarantee(
    (*DURABLE, transaction_log_kept),
    "an acknowledged record, or transaction, stays while one in-sync replica lives",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, flush.messages, "
    f"transaction.state.log.min.isr; KIP-98; KIP-966; {STUDY}, tests 1, 2",
)
SENT_IN_ORDER: Final = Guarantee(
    (in_order, exactly_once_log, *DURABLE),
    "records of one producer stand in the order in which they were sent",
    f"{DOCUMENTED}: max.in.flight.requests.per.connection, enable.idempotence; Design, 4.7 Replication",
)
WRITTEN: Final = Guarantee(
    (*DURABLE, nothing_removed),
    "an acknowledged record stays while one in-sync replica lives, and nothing removes it",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, cleanup.policy, retention.ms",
)
READ_IN_ORDER: Final = Guarantee(
    (exactly_once_log, one_reader, *LOG, place_kept),
    "a consumer reads a partition in order, each record once between rebalances, and begins where its "
    "group has committed; a duplicate shows as a repeat, and so does a log that was cut off",
    f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.7 Replication; group.protocol; KIP-848; KIP-932",
)
READ_WHOLLY: Final = Guarantee(
    (exactly_once_log, one_reader, *LOG, place_kept),
    "a consumer reads every record of a partition that is not deleted; a duplicate shows as a skip, and so "
    "does a log that was cut off",
    f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.7 Replication, 4.8 Log Compaction; cleanup.policy",
)
