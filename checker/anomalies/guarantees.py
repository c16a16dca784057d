"""Decides which anomalies the settings of clients and brokers rule out, given the faults of the run.

A guarantee holds if all of its conditions do. A condition on an unknown setting makes the guarantee unknown (None).
Guarantees that several anomalies share are defined here, others in the anomaly's own module.
tests/unit/checker/promises.py has a table of the guarantees under different settings and faults.

Nearly all guarantees require that logs keep the records below their high watermark. Kafka guarantees this as long as
one in-sync replica survives and only in-sync replicas become leader (Design, 4.7). A server that is killed keeps its
copy, because the operating system still has the written data in its page cache. One replica is therefore enough unless
a fault destroys copies. If a fault may have truncated logs, nothing about later reads is guaranteed: the logs lose not
only records, but also sequence numbers, transaction markers and committed offsets, and offsets are assigned again.

Sources: Kafka's documentation of producer, consumer, topic and broker configurations (4.1); "Replication" and "Message
Delivery Semantics" (Design, 4.6, 4.7); KIP-966; and the study named in `STUDY`. Some anomalies have no guarantee: G0
and int-send-skip, because Kafka does not isolate the writes of transactions from each other, and cycles with rw edges,
because Kafka does not guarantee that a read returns the latest record. Deletion by age, size or DeleteRecords needs no
condition: the kernels exempt deletions that the history explains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.model.check_options import InternalTopic, Settings

Condition = Callable[[Settings], bool | None]
IN_FLIGHT_MOST: Final = 5  # the limit for idempotent producers
RETENTION: Final = (
    "retention.ms",
    "retention.bytes",
    *(f"log.retention.{limit}" for limit in ("ms", "minutes", "hours", "bytes")),
)
PRODUCER_ID_KEPT_MS: Final = 24 * 60 * 60 * 1000  # the broker's default


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A property of Kafka that is guaranteed if all conditions hold.

    conditions   functions of the settings that return whether a condition holds; None if that is unknown
    says         the property, as a clause that can follow "because"
    """

    conditions: tuple[Condition, ...]
    says: str
    source: str

    def holds(self, settings: Settings) -> bool | None:
        """Returns whether all conditions hold under the settings; None if that depends on an unknown setting."""
        return every(*(condition(settings) for condition in self.conditions))


def every(*answers: bool | None) -> bool | None:
    """Returns the logical "and" of answers, some of which may be None (unknown).

    The result is False if any answer is False, else None if any is None, else True.
    """
    if False in answers:
        return False
    return None if None in answers else True


# --- logs ---------------------------------------------------------------------------------------------


def acks_all(settings: Settings) -> bool | None:
    """Returns whether records are acknowledged only when every in-sync replica has them (acks=all).

    Idempotence and transactions require acks=all. With a single replica, acks=1 is equivalent.
    """
    if settings.acks == "1" and settings.replication is not None:
        return settings.replication == 1
    return None if settings.acks is None else settings.acks in ("all", "-1")


def copies_kept(settings: Settings) -> bool | None:
    """Returns whether each record that all in-sync replicas had is still on a replica that can become leader."""
    return _kept(settings, settings.replication, settings.min_insync_replicas, flushed=settings.flush_messages == 1)


def _kept(settings: Settings, replication: int | None, min_isr: int | None, flushed: bool) -> bool | None:
    """Returns whether a complete copy of a log survived the faults, given the log's settings.

    `flushed`: each record is flushed to disk when it is appended. If a power failure hits the last in-sync replica, its
    unflushed records are lost: this replica becomes leader again, and the others truncate their logs to match. With
    eligible leader replicas (KIP-966), a server that shut down uncleanly does not become leader. Instead, a replica can
    become leader that left the ISR while fewer than `min.insync.replicas` replicas were in sync. At startup a server
    verifies only the end of a log. Whether a damaged copy is restored from the other replicas therefore depends on
    which part was damaged.
    """
    damaged, unsynced = settings.damaged_copies, 0 if flushed else settings.unsynced_copies
    if not damaged and not unsynced:
        return None if settings.replication is None else True  # without a plan the faults are unknown, too
    limits = [count for count in (replication, min_isr) if count is not None]
    if limits and damaged + unsynced >= min(limits):
        return False
    repaired = None if damaged else True
    return every(repaired, settings.eligible_leader_replicas, True if len(limits) == 2 else None)


def clean_election(settings: Settings) -> bool | None:
    """Returns whether only in-sync replicas can become leader."""
    return None if settings.unclean_election is None else not settings.unclean_election


def group_log_kept(settings: Settings) -> bool | None:
    """Returns whether a group's committed offsets are kept, because the log of __consumer_offsets loses no records.

    Offsets that are committed in transactions also depend on the transaction log.
    """
    topic = settings.offsets_topic
    acks = settings.commit_acks in (None, "all", "-1") or topic.replication == 1
    of_transactions = True if settings.txn is False else transaction_log_kept(settings)
    return every(acks, _internal(settings, topic), clean_election(settings), of_transactions)


def transaction_log_kept(settings: Settings) -> bool | None:
    """Returns whether the outcome of transactions is kept, because the log of __transaction_state loses no records."""
    if settings.txn is False:
        return True
    return every(_internal(settings, settings.transactions_topic), clean_election(settings))


def _internal(settings: Settings, topic: InternalTopic) -> bool | None:
    kept = _kept(settings, topic.replication, topic.min_insync_replicas, flushed=topic.flush_messages == 1)
    return False if topic.unclean_election else kept


def share_state_kept(settings: Settings) -> bool | None:
    """Returns whether the state of share groups is kept, because the log of __share_group_state loses no records."""
    return every(_internal(settings, settings.share.state_topic), clean_election(settings))


def share_read_committed(settings: Settings) -> bool | None:
    """Returns whether share groups do not get uncommitted records (share.isolation.level)."""
    if settings.txn is False:
        return True
    level = settings.share.isolation_level
    return None if level is None else level == "read_committed"


# --- producers ----------------------------------------------------------------------------------------


def exactly_once_log(settings: Settings) -> bool | None:
    """Returns whether a send is appended at most once, because brokers remember sequence numbers.

    Without sequence numbers there is no guarantee, not even with retries=0: librdkafka repeats requests that failed
    with NOT_LEADER and similar errors regardless, and does not count them as retries.
    """
    if settings.acks is not None and settings.acks not in ("all", "-1"):
        return False  # idempotence requires acks=all
    if not (settings.idempotence or settings.txn):
        return None if settings.idempotence is None else False
    if settings.max_in_flight is not None and settings.max_in_flight > IN_FLIGHT_MOST:
        return False
    remembered_ms = settings.producer_id_expiration_ms
    return None if remembered_ms is not None and remembered_ms < PRODUCER_ID_KEPT_MS else True


def in_order(settings: Settings) -> bool | None:
    """Returns whether batches stay in order when they are retried.

    Sequence numbers ensure this, and so does a limit of one request in flight.
    """
    if settings.idempotence or settings.txn or settings.max_in_flight == 1:
        return True
    return None if settings.idempotence is None else False


def transactions(settings: Settings) -> bool | None:
    """Returns whether every op is a transaction."""
    return settings.txn


# --- consumers ----------------------------------------------------------------------------------------


def read_committed(settings: Settings) -> bool | None:
    """Returns whether consumers do not see uncommitted records.

    Without transactions there are no uncommitted records.
    """
    if settings.txn is False:
        return True
    return None if settings.isolation_level is None else settings.isolation_level == "read_committed"


def one_reader(settings: Settings) -> bool | None:
    """Returns whether a partition has only one consumer at a time, which reads the partition in order.

    This is true of manual assignment, and of the group protocols classic (the default) and consumer (KIP-848), but not
    of share groups (KIP-932).
    """
    if settings.sub_via == frozenset({"assign"}):
        return True
    return settings.group_protocol in (None, "classic", "consumer")


def place_kept(settings: Settings) -> bool | None:
    """Returns whether the next consumer of a partition starts at the group's committed offset.

    With manual assignment there is no group, and the result is True.
    """
    return True if settings.sub_via == frozenset({"assign"}) else group_log_kept(settings)


def not_compacted(settings: Settings) -> bool | None:
    """Returns whether compaction removes no records. The default cleanup policy only deletes old segments."""
    return "compact" not in (settings.cleanup_policy or "delete")


def nothing_removed(settings: Settings) -> bool | None:
    """Returns whether no record is removed by age, by the size of its log, by DeleteRecords, or by compaction.

    If brokers have a retention limit, the result is None: whether records reach the limit depends on the duration and
    size of the run.
    """
    limits = {settings.broker[name] for name in RETENTION if name in settings.broker}
    return every(not settings.deletes, not_compacted(settings), None if limits - {"-1"} else True)


def damage_noticed(settings: Settings) -> bool | None:
    """Returns whether consumers never deliver damaged data: no file was damaged, or consumers verify checksums."""
    return settings.check_crcs if settings.damaged_copies else True


LOG: Final = (copies_kept, clean_election)
DURABLE: Final = (acks_all, *LOG)
DOCUMENTED: Final = "Kafka 4.1 documentation"
STUDY: Final = "a study of Kafka's delivery at the Ural Federal University"

STAYS: Final = Guarantee(
    DURABLE,
    "an acknowledged record keeps its offset as long as one in-sync replica survives",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, flush.messages; KIP-966; "
    f"{STUDY}, tests 1, 2",
)
KEPT: Final = Guarantee(
    (*DURABLE, transaction_log_kept),
    "an acknowledged record or committed transaction is kept as long as one in-sync replica survives",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, flush.messages, "
    f"transaction.state.log.min.isr; KIP-98; KIP-966; {STUDY}, tests 1, 2",
)
SENT_IN_ORDER: Final = Guarantee(
    (in_order, exactly_once_log, *DURABLE),
    "records of one producer are in the log in the order in which they were sent",
    f"{DOCUMENTED}: max.in.flight.requests.per.connection, enable.idempotence; Design, 4.7 Replication",
)
WRITTEN: Final = Guarantee(
    (*DURABLE, nothing_removed),
    "an acknowledged record is kept as long as one in-sync replica survives, and nothing removes it",
    f"{DOCUMENTED}: acks, min.insync.replicas, unclean.leader.election.enable, cleanup.policy, retention.ms",
)
READ_IN_ORDER: Final = Guarantee(
    (exactly_once_log, one_reader, *LOG, place_kept),
    "a consumer reads a partition in order, each record once between rebalances, and starts at its group's "
    "committed offset; duplicate records and truncated logs also show as repeated reads",
    f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.7 Replication; group.protocol; KIP-848; KIP-932",
)
READ_WHOLLY: Final = Guarantee(
    (exactly_once_log, one_reader, *LOG, place_kept),
    "a consumer reads every record of a partition that is not deleted; duplicate records and truncated logs also show "
    "as skips",
    f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.7 Replication, 4.8 Log Compaction; cleanup.policy",
)
