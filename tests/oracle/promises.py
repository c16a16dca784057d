"""Which anomalies Kafka rules out, by settings and faults: a table with a source for each row.

True: ruled out. False: not ruled out. None: the documentation is ambiguous or silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.case import Case

COMMITTED = (
    "Kafka documentation, Design, Replication: a committed message is not lost while one in-sync replica that has it "
    "lives; producer setting acks"
)
UNCLEAN = "Kafka documentation, Design, Unclean leader election; topic setting unclean.leader.election.enable"
LAST_REPLICA = (
    "KIP-966: without it the last in-sync replica may lose its data and lead again; with it min.insync.replicas - 1 "
    "unclean shutdowns are borne"
)
FLUSH = "Kafka documentation, Application vs. OS flush management; log.flush.interval.messages"
IDEMPOTENCE = "KIP-98 and KIP-679: each send of a producer once and in order; excluded by acks other than all"
ISOLATION = "KIP-98; consumer setting isolation.level"
IN_ORDER = "Kafka documentation, Introduction: a consumer reads the records of a partition in the order of the log"
COMPACTION = "Kafka documentation, Design, Log Compaction: what the cleaner keeps, keeps its order and its offset"
CHECKSUMS = "Kafka documentation, consumer setting check.crcs"


def copies_kept(case: Case) -> bool | None:
    """Whether committed records survive on a replica that becomes leader, regardless of acks."""
    if case.unclean_enabled or "elect-unclean:leader" in case.faults:
        return False
    least = 1 if "config-change:min-isr-down" in case.faults else case.min_isr
    flushed = case.broker.get("log.flush.interval.messages") == "1"
    hit = 0
    for fault in case.faults:
        if fault == "power-loss:all" and not flushed:
            hit = max(hit, case.replication)
        elif fault == "truncate-tail:leader" or (fault == "power-loss:leader" and not flushed):
            hit = max(hit, 1)
    if hit == 0:
        return True
    return False if hit >= least else case.elr


def durable(case: Case) -> bool | None:
    """Whether acknowledged records are kept."""
    kept = copies_kept(case)
    if case.true_acks == "0" or kept is False:
        return False
    if case.true_acks == "1":
        return False if case.replication > 1 else None
    return kept


def whole_transactions(case: Case) -> bool | None:
    """Whether a committed transaction stays visible as a whole, and an aborted one is never visible."""
    if not case.txn or case.isolation == "read_uncommitted":
        return None
    return copies_kept(case)


def own_unseen(case: Case) -> bool | None:
    """Whether a transaction does not see its own records before it commits."""
    return True if whole_transactions(case) else None


def one_offset(case: Case) -> bool | None:
    """Whether an offset that was acknowledged or read is never used for another record."""
    return None if case.true_acks == "0" else durable(case)


def once(case: Case) -> bool | None:
    """Whether a record that was sent once is in the log once."""
    if case.idempotent:
        return copies_kept(case)
    return False if case.retries != 0 and case.true_acks != "0" else None


def read_in_order(case: Case) -> bool | None:
    """Whether consumers never go back. A duplicate record looks as if they had."""
    kept = copies_kept(case)
    return kept if kept is False or case.idempotent else None


def all_read(case: Case) -> bool | None:
    """Whether consumers skip nothing; they skip what a log cleaner has removed."""
    return None if "config-change:compact" in case.faults and copies_kept(case) else read_in_order(case)


def read_in_order_by_assignment(case: Case) -> bool | None:
    """`read_in_order` across operations, between which a group may rebalance."""
    return None if "subscribe" in case.sub_via else read_in_order(case)


def all_read_by_assignment(case: Case) -> bool | None:
    """`all_read` across operations."""
    return None if "subscribe" in case.sub_via else all_read(case)


def sent_in_order(case: Case) -> bool | None:
    """Whether records are in the log in the order in which one producer sent them."""
    if copies_kept(case) is False:
        return False
    return True if case.idempotent and durable(case) else None


def sent_in_order_at_once(case: Case) -> bool | None:
    """The same for records in flight at the same time, where a retry may be overtaken."""
    if not case.idempotent and case.retries != 0 and case.true_acks != "0":
        return False
    return sent_in_order(case)


def unaltered(case: Case) -> bool | None:
    """Whether consumers read only what was sent."""
    return True if copies_kept(case) else None


@dataclass(frozen=True, slots=True)
class Promise:
    anomalies: tuple[str, ...]
    given: Callable[[Case], bool | None]
    sources: tuple[str, ...]


LOGS = (COMMITTED, UNCLEAN, LAST_REPLICA, FLUSH)
PROMISES = (
    Promise(("lost-write", "unseen"), durable, LOGS),
    Promise(("torn-transaction", "G1a"), whole_transactions, (ISOLATION, *LOGS)),
    Promise(("precommitted-read",), own_unseen, (ISOLATION,)),
    Promise(("inconsistent-offsets",), one_offset, LOGS),
    Promise(("duplicate",), once, (IDEMPOTENCE, UNCLEAN)),
    Promise(("int-nonmonotonic-poll",), read_in_order, (IN_ORDER, UNCLEAN)),
    Promise(("nonmonotonic-poll",), read_in_order_by_assignment, (IN_ORDER, UNCLEAN)),
    Promise(("int-poll-skip",), all_read, (IN_ORDER, UNCLEAN, COMPACTION)),
    Promise(("poll-skip",), all_read_by_assignment, (IN_ORDER, UNCLEAN, COMPACTION)),
    Promise(("nonmonotonic-send", "stale-send"), sent_in_order, (IDEMPOTENCE, *LOGS)),
    Promise(("int-nonmonotonic-send",), sent_in_order_at_once, (IDEMPOTENCE, *LOGS)),
    Promise(("phantom-read",), unaltered, (CHECKSUMS,)),
)


def promises(case: Case) -> dict[str, bool]:
    """By anomaly: whether it is ruled out; without those that the documentation leaves open."""
    if case.plain:
        return {}
    found = {name: promise.given(case) for promise in PROMISES for name in promise.anomalies}
    return {name: given for name, given in found.items() if given is not None}
