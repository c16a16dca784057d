"""What Kafka guarantees under settings and faults: a table whose rows have sources.

A row starts from SAFE, under which all anomalies below are ruled out, and applies changes. For groups of anomalies
it says whether they are still ruled out; groups that it does not name are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.check_options import InternalTopic, Settings
from nemesis.targets import EVERY_NODE

THREE: Final = InternalTopic(replication=3, min_insync_replicas=2, unclean_election=False)
ONE: Final = InternalTopic(replication=1, min_insync_replicas=1, unclean_election=False)
SAFE: Final = Settings(
    acks="all",
    retries=5,
    max_in_flight=5,
    idempotence=True,
    txn=True,
    isolation_level="read_committed",
    replication=3,
    min_insync_replicas=2,
    unclean_election=False,
    sub_via=frozenset({"assign", "subscribe"}),
    group_protocol="classic",
    eligible_leader_replicas=True,
    check_crcs=True,
    offsets_topic=THREE,
    transactions_topic=THREE,
)

KEPT: Final = ("lost-write", "unseen")
STAYS: Final = ("inconsistent-offsets", "replica-difference", "stale-send")
SENDS: Final = ("nonmonotonic-send", "int-nonmonotonic-send")
ONCE: Final = ("duplicate",)
POLLS: Final = ("nonmonotonic-poll", "int-nonmonotonic-poll")
SKIPS: Final = ("poll-skip", "int-poll-skip")
COMMITTED: Final = ("G1a", "G1c", "G1c-process")
OWN: Final = ("precommitted-read",)
TORN: Final = ("torn-transaction",)
GROUPS: Final = ("offset-regression", "concurrent-owners")
CONTENT: Final = ("phantom-read",)
TIME: Final = ("G1c-realtime",)  # no setting makes the past hang on the future
ALL: Final = (KEPT, STAYS, SENDS, ONCE, POLLS, SKIPS, COMMITTED, OWN, TORN, GROUPS, CONTENT, TIME)
NEVER: Final = ("int-send-skip", "G0", "G0-process", "G0-realtime", "G-single", "G2-item", "PL-1-cycle-exists")

LOGS: Final = (KEPT, STAYS, SENDS, ONCE, POLLS, SKIPS, COMMITTED, OWN, TORN, GROUPS)
# By hand, without a group, and without transactions.
PLAIN: Final[Mapping[str, Any]] = {"txn": False, "sub_via": frozenset({"assign"})}
REPLICATION: Final = "Design, 4.7 Replication: a committed message is not lost while one in-sync replica lives"
Promise = bool | None


@dataclass(frozen=True)
class Row:
    """name; differences from SAFE; which groups are still ruled out; where Kafka says so."""

    name: str
    changes: Mapping[str, Any]
    left: Mapping[tuple[str, ...], Promise]
    source: str


def _all(promise: Promise, *groups: tuple[str, ...]) -> dict[tuple[str, ...], Promise]:
    return dict.fromkeys(groups, promise)


TABLE: Final = (
    Row("safe", {}, {}, REPLICATION),
    # --- acknowledgements ---
    Row("acks=1", {"acks": "1", "idempotence": False, "txn": False},
        _all(False, KEPT, STAYS, SENDS, ONCE, POLLS, SKIPS, OWN, TORN),
        "acks: with 1 the leader answers before its followers have the record; idempotence needs all"),
    Row("acks=0", {"acks": "0", "idempotence": False, "txn": False},
        _all(False, KEPT, STAYS, SENDS, ONCE, POLLS, SKIPS, OWN, TORN), "acks: with 0 nobody answers"),
    Row("acks=1 of one replica", {"acks": "1", "replication": 1, "min_insync_replicas": 1, "idempotence": False,
                                  **PLAIN},
        _all(False, SENDS, ONCE, POLLS, SKIPS, OWN), "acks: the leader is all of the in-sync replicas"),
    # --- replicas, none of which is lost ---
    Row("one copy, none lost", {"replication": 1, "min_insync_replicas": 1, "offsets_topic": ONE,
                                "transactions_topic": ONE}, {}, REPLICATION),
    Row("one in sync, none lost", {"min_insync_replicas": 1}, {},
        f"{REPLICATION}; min.insync.replicas: acks=all waits for those that are in sync, were it the leader alone"),
    # --- power loss of one replica ---
    Row("one cut, eligible leaders known", {"unsynced_copies": 1}, {},
        "KIP-966: those that left while too few were in sync lead instead of a server that ended uncleanly"),
    Row("one cut, before KIP-966", {"unsynced_copies": 1, "eligible_leader_replicas": False},
        _all(False, *LOGS), "KIP-966, Motivation: the last replica in sync leads again, and truncates the others"),
    Row("one cut, feature not known", {"unsynced_copies": 1, "eligible_leader_replicas": None},
        _all(None, *LOGS), "KIP-966: by the feature level in force"),
    Row("one cut, one in sync", {"unsynced_copies": 1, "min_insync_replicas": 1}, _all(False, *set(LOGS) - {GROUPS}),
        "min.insync.replicas: with 1 the leader's page cache may be all that has a record"),
    Row("one cut of one copy", {"unsynced_copies": 1, "replication": 1, "min_insync_replicas": 1,
                                "offsets_topic": ONE, "transactions_topic": ONE}, _all(False, *LOGS), REPLICATION),
    Row("one cut of one copy, flushed",
        {"unsynced_copies": 1, "replication": 1, "min_insync_replicas": 1, "flush_messages": 1,
         "offsets_topic": InternalTopic(1, 1, False, 1), "transactions_topic": InternalTopic(1, 1, False, 1)}, {},
        "log.flush.interval.messages: with 1 every message is forced to disk"),
    # --- power loss of all replicas ---
    Row("all cut", {"unsynced_copies": EVERY_NODE}, _all(False, *LOGS),
        "Design, 4.7 Replication: what if they all die?; flush.messages: durability is replication's"),
    Row("all cut, the run's topics flushed", {"unsynced_copies": EVERY_NODE, "flush_messages": 1},
        _all(False, KEPT, POLLS, SKIPS, COMMITTED, OWN, TORN, GROUPS),
        "flush.messages is a topic's: __consumer_offsets and __transaction_state are not flushed by it"),
    Row("all cut, all flushed", {"unsynced_copies": EVERY_NODE, "flush_messages": 1,
                                 "offsets_topic": InternalTopic(3, 2, False, 1),
                                 "transactions_topic": InternalTopic(3, 2, False, 1)}, {},
        "log.flush.interval.messages: with 1 every message is forced to disk"),
    # --- damage ---
    Row("one damaged", {"damaged_copies": 1}, _all(None, *LOGS),
        "Implementation, Log: recovery looks at the end of a log; Design, 4.7: no byzantine failures"),
    Row("one damaged, before KIP-966", {"damaged_copies": 1, "eligible_leader_replicas": False},
        _all(False, *LOGS), "KIP-966, Motivation"),
    Row("as many damaged as in sync", {"damaged_copies": 2}, _all(False, *LOGS), REPLICATION),
    Row("all damaged, flushed", {"damaged_copies": EVERY_NODE, "flush_messages": 1}, _all(False, *LOGS), REPLICATION),
    Row("one damaged, one cut", {"damaged_copies": 1, "unsynced_copies": 1}, _all(False, *LOGS), REPLICATION),
    Row("damaged, checksums not verified", {"damaged_copies": 2, "check_crcs": False}, _all(False, *LOGS, CONTENT),
        "check.crcs: no corruption of the messages on the wire or on disk"),
    Row("checksums not verified", {"check_crcs": False}, {}, "check.crcs"),
    # --- elections ---
    Row("unclean elections", {"unclean_election": True}, _all(False, *LOGS),
        "unclean.leader.election.enable: replicas not in sync lead as a last resort, though data may be lost"),
    Row("unclean elections not known", {"unclean_election": None}, _all(None, *LOGS),
        "unclean.leader.election.enable may be a topic's, a broker's or the cluster's"),
    # --- internal topics ---
    Row("offsets on one node, which is cut", {"unsynced_copies": 1, "offsets_topic": ONE},
        _all(False, GROUPS, POLLS, SKIPS), "offsets.topic.replication.factor"),
    Row("offsets on one node, which is cut; by hand", {"unsynced_copies": 1, "offsets_topic": ONE, **PLAIN},
        _all(False, GROUPS, OWN), "offsets.topic.replication.factor; KafkaConsumer: assign has no group"),
    Row("commits that one replica has", {"commit_acks": "1"}, _all(False, GROUPS, POLLS, SKIPS),
        "offsets.commit.required.acks (before 4.0): the default should not be overridden"),
    Row("unclean elections of offsets", {"offsets_topic": InternalTopic(3, 2, True)},
        _all(False, GROUPS, POLLS, SKIPS), "unclean.leader.election.enable"),
    Row("transactions on one node, which is cut", {"unsynced_copies": 1, "transactions_topic": ONE},
        _all(False, KEPT, COMMITTED, OWN, TORN, GROUPS, POLLS, SKIPS),
        "transaction.state.log.replication.factor; KIP-98: what the coordinator had decided"),
    Row("transactions on one node, and none", {"unsynced_copies": 1, "transactions_topic": ONE, "txn": False},
        _all(False, OWN), "KIP-98"),
    Row("internal topics not known, one cut",
        {"unsynced_copies": 1, "offsets_topic": InternalTopic(), "transactions_topic": InternalTopic()},
        _all(None, KEPT, COMMITTED, OWN, TORN, GROUPS, POLLS, SKIPS), "offsets.topic.replication.factor"),
    # --- producers ---
    Row("neither idempotent nor transactional", {"idempotence": False, "txn": False},
        _all(False, SENDS, ONCE, POLLS, SKIPS, OWN), "enable.idempotence"),
    Row("one request in flight", {"idempotence": False, "txn": False, "max_in_flight": 1},
        _all(False, SENDS, ONCE, POLLS, SKIPS, OWN), "enable.idempotence: retries may write duplicates"),
    Row("six requests in flight", {"max_in_flight": 6}, _all(False, SENDS, ONCE, POLLS, SKIPS),
        "enable.idempotence needs max.in.flight.requests.per.connection of 5 or less"),
    Row("producers soon forgotten", {"producer_id_expiration_ms": 1000}, _all(None, SENDS, ONCE, POLLS, SKIPS),
        "producer.id.expiration.ms: duplicates may come where a retry takes longer"),
    # --- consumers ---
    Row("uncommitted records are read", {"isolation_level": "read_uncommitted"},
        _all(False, COMMITTED, OWN, TORN), "isolation.level"),
    Row("uncommitted records, and none are", {"isolation_level": "read_uncommitted", "txn": False}, _all(False, OWN),
        "isolation.level: records without transactions are returned unconditionally"),
    Row("share groups", {"group_protocol": "share"}, _all(False, POLLS, SKIPS, GROUPS), "KIP-932"),
    Row("the new protocol of groups", {"group_protocol": "consumer"}, {}, "KIP-848"),
    Row("share groups, but by hand", {"group_protocol": "share", **PLAIN}, _all(False, OWN),
        "KafkaConsumer: assign has no group"),
    Row("compaction", {"cleanup_policy": "compact,delete"}, {},
        "Design, 4.8 Log Compaction: order and offsets stay; that records were cleaned away is no skip"),
)  # fmt: skip


def expected(row: Row) -> dict[str, Promise]:
    """anomaly -> whether it is ruled out."""
    by_name = {name: row.left.get(group, True) for group in ALL for name in group}
    return {**by_name, **dict.fromkeys(NEVER, False)}
