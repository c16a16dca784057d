"""The options of the checker. Apart from them, the checker sees only the history; it never sees the run's plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Acks = Literal["0", "1", "all"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """Settings of an internal topic, which stores the state of groups or of transactions.

    None means that a setting is not known.
    """

    replication: int | None = None
    min_insync_replicas: int | None = None
    unclean_election: bool | None = None
    flush_messages: int | None = None


@dataclass(frozen=True, slots=True)
class ShareGroups:
    """Settings of share groups (KIP-932). None means that a setting is not known.

    lock_ms              how long a member may hold a record before it is delivered again (record.lock.duration.ms)
    delivery_limit       how often a record is delivered at most (delivery.count.limit)
    isolation_level      share.isolation.level of the groups
    auto_offset_reset    share.auto.offset.reset of the groups
    acknowledgement      share.acknowledgement.mode of the clients: implicit or explicit
    partitions           how many partitions each topic has at the start
    partitions_per_topic how many keys each topic has: key = number of the topic * partitions_per_topic + partition;
                         None: keys do not name topics
    state_topic          settings of __share_group_state
    """

    lock_ms: int | None = None
    delivery_limit: int | None = None
    isolation_level: IsolationLevel | None = None
    auto_offset_reset: str | None = None
    acknowledgement: str | None = None
    partitions: int | None = None
    partitions_per_topic: int | None = None
    state_topic: InternalTopic = InternalTopic()


@dataclass(frozen=True, slots=True)
class Settings:
    """Client and broker settings that determine which anomalies Kafka rules out. None means that a setting is not
    known.

    eligible_leader_replicas   whether the feature is enabled (KIP-966)
    producer_id_expiration_ms  how long brokers keep the sequence numbers of a producer that is idle
    check_crcs                 whether consumers verify the checksums of the batches they fetch
    offsets_topic              settings of __consumer_offsets
    commits_fenced             whether brokers reject all commits of members that the group has removed (KIP-447), and
                               the clients record each revocation
    commit_acks                acks of the offset commits, which are writes to __consumer_offsets
    transactions_topic         settings of __transaction_state
    """

    acks: str | None = None  # as `Acks`
    retries: int | None = None
    max_in_flight: int | None = None
    idempotence: bool | None = None
    txn: bool | None = None
    isolation_level: IsolationLevel | None = None
    auto_offset_reset: str | None = None
    replication: int | None = None
    min_insync_replicas: int | None = None
    unclean_election: bool | None = None
    cleanup_policy: str | None = None
    flush_messages: int | None = None
    sub_via: frozenset[str] | None = None  # any of assign, subscribe
    group_protocol: str | None = None  # classic, consumer, share
    eligible_leader_replicas: bool | None = None
    producer_id_expiration_ms: int | None = None
    check_crcs: bool | None = None
    offsets_topic: InternalTopic = InternalTopic()
    commits_fenced: bool | None = None
    commit_acks: str | None = None  # as `Acks`
    transactions_topic: InternalTopic = InternalTopic()
    share: ShareGroups = ShareGroups()
    damaged_copies: int = 0  # on how many nodes faults destroyed data at once
    unsynced_copies: int = 0  # how many nodes lost their unflushed data at once
    record_bytes: int | None = None  # upper bound for a record's size in the log, its share of the batch included
    record_keys: int = 0  # number of record keys in each partition of a compacted topic; 0: records have no key
    deletes: bool = False  # whether faults delete records
    broker: Mapping[str, str] = field(default_factory=dict)


# Settings whose larger value gives the weaker guarantee.
LARGER_IS_WEAKER: Final = frozenset({"damaged_copies", "unsynced_copies"})

EDGES: Final = ("ww", "wr", "rw", "process", "realtime")
DEFAULT_EDGES: Final = frozenset({"ww", "wr", "realtime"})


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to judge a history.

    ww_deps             derive write-write edges between transactions from the order of offsets
    edges               kinds of edges of the graph in which the checker looks for cycles: any of ww (write-write),
                        wr (write-read), rw (read-write), process, realtime
    sub_via             how consumers got their partitions: any of assign, subscribe
    jepsen_compatible   judge exactly by Jepsen's rules, instead of the harness's own rules
    expected_faults     names of faults, such as "kill:leader", each of which must have taken effect at least once
    require_final_polls the run includes final polls; if they are not complete, the verdict is unknown
    buckets             how many groups the keys are divided into, which are checked separately; None: depends on the
                        size of the history
    """

    ww_deps: bool = True
    edges: frozenset[str] = DEFAULT_EDGES
    sub_via: frozenset[str] = frozenset({"assign", "subscribe"})
    jepsen_compatible: bool = False
    settings: Settings = field(default_factory=Settings)
    expected_faults: tuple[str, ...] = ()
    require_final_polls: bool = False
    checks: tuple[str, ...] = ("queue",)
    buckets: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
