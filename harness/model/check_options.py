"""What the checker is told. It never sees the plan: these options are all that reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Acks = Literal["0", "1", "all"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """Settings of a topic in which brokers keep what groups or transactions have done. None: not known."""

    replication: int | None = None
    min_insync_replicas: int | None = None
    unclean_election: bool | None = None
    flush_messages: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Client and broker settings from which the guarantees follow (`promised`). None: not known.

    eligible_leader_replicas  the feature is in force (KIP-966)
    producer_id_expiration_ms  how long brokers remember the sequence numbers of a producer that is idle
    check_crcs                 consumers verify the checksums of what they read
    offsets_topic              of __consumer_offsets; its commits wait for `commit_acks`
    transactions_topic         of __transaction_state
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
    commit_acks: str | None = None  # as `Acks`
    transactions_topic: InternalTopic = InternalTopic()
    damaged_copies: int = 0  # nodes whose data faults destroyed at once
    unsynced_copies: int = 0  # nodes that lost at once what they had not flushed
    record_bytes: int | None = None  # at most so many of a record in the log, its share of the batch included
    deletes: bool = False  # faults delete records
    broker: Mapping[str, str] = field(default_factory=dict)


# Settings of which the larger one is the weaker.
LARGER_IS_WEAKER: Final = frozenset({"damaged_copies", "unsynced_copies"})

EDGES: Final = ("ww", "wr", "rw", "process", "realtime")
DEFAULT_EDGES: Final = frozenset({"ww", "wr", "realtime"})


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to judge a history.

    ww_deps             offsets imply write-write order between transactions
    edges               kinds of edges that cycles may be made of: any of ww, wr, rw, process, realtime
    sub_via             how consumers subscribed: any of assign, subscribe
    jepsen_compatible   exactly Jepsen's rules and verdict, instead of the native ones
    expected_faults     names ("kill:leader") of which at least one each must have taken effect
    require_final_polls the run promises final polls; without a complete one the verdict is unknown
    run                 the run id that payloads must carry, when known
    buckets             how many tables' buckets keys are spread over; None: from the size
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
