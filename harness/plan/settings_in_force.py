"""Replaces the settings of a plan with the settings that the cluster reports.

A run queries the cluster's settings once its topics exist, and records the answer in events/harness.jsonl:

    {"event": "settings", "run": {topic: {"replication": 3, "min.insync.replicas": "2", ...}},
     "internal": {"__consumer_offsets": {...}, ...}, "brokers": {"1": {...}}, "features": {"metadata.version": 25}}

The record does not contain settings that the cluster does not report. If topics or brokers have different values, the
weakest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from harness.model.check_options import InternalTopic, Settings
from harness.plan.setting_values import boolean, whole

EVENT: Final = "settings"
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
DURABILITY: Final = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages")
OF_TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (*DURABILITY, "cleanup.policy", "retention.ms", "retention.bytes"),
    "internal": DURABILITY,
}
COMMIT_ACKS: Final = "offsets.commit.required.acks"
PRODUCER_ID_EXPIRATION: Final = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
OF_BROKERS: Final = (COMMIT_ACKS, *PRODUCER_ID_EXPIRATION)
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"  # KIP-966; the finalized level, whatever the release
Rows = Iterable[Mapping[str, Any]]


def settled(settings: Settings, answer: Mapping[str, Any] | None) -> Settings:
    """Returns the settings of a plan, with the values that its cluster reported.

    answer  the recorded answer of the cluster; None if there is none
    """
    if not answer:
        return settings
    run, internal = _rows(answer.get("run")), answer.get("internal")
    brokers, features = _rows(answer.get("brokers")), answer.get("features")
    changes: dict[str, Any] = {}
    if run:
        known = _durability(run)
        changes |= {name: getattr(known, name) for name in _KNOWN if getattr(known, name) is not None}
        changes["flush_messages"] = known.flush_messages
        policies = [str(row["cleanup.policy"]) for row in run if "cleanup.policy" in row]
        if policies:
            changes["cleanup_policy"] = next((policy for policy in policies if "compact" in policy), policies[0])
    if isinstance(internal, Mapping):
        for name, topic in (("offsets_topic", OFFSETS), ("transactions_topic", TRANSACTIONS)):
            if isinstance(internal.get(topic), Mapping):
                changes[name] = _durability([internal[topic]])
    acks = {str(row[COMMIT_ACKS]) for row in brokers if COMMIT_ACKS in row} - {"all", "-1"}
    if acks:
        changes["commit_acks"] = min(acks)
    if (expiration_ms := shortest(brokers)) is not None:
        changes["producer_id_expiration_ms"] = expiration_ms
    if isinstance(features, Mapping):
        changes["eligible_leader_replicas"] = bool(features.get(ELIGIBLE_LEADERS))
    return replace(settings, **changes)


_KNOWN: Final = ("replication", "min_insync_replicas", "unclean_election")


def shortest(rows: Rows) -> int | None:
    """Returns how long, in ms, a broker remembers an idle producer's sequence numbers: the shortest time of any broker.

    rows  the settings of each broker

    Returns None if no broker reports this time.
    """
    values = [whole(str(row[name])) for row in rows for name in PRODUCER_ID_EXPIRATION if name in row]
    return min((value for value in values if value is not None), default=None)


def _rows(found: Any) -> list[Mapping[str, Any]]:
    return [row for row in found.values() if isinstance(row, Mapping)] if isinstance(found, Mapping) else []


def _durability(rows: list[Mapping[str, Any]]) -> InternalTopic:
    """Returns the weakest value of each durability setting among the topics `rows`."""

    def least(name: str, worst: Callable[..., Any], read: Callable[[str], Any]) -> Any:
        values = [read(str(row[name])) for row in rows if name in row]
        return worst(values) if values and None not in values else None

    flush = least("flush.messages", max, whole)
    return InternalTopic(
        replication=least("replication", min, whole),
        min_insync_replicas=least("min.insync.replicas", min, whole),
        unclean_election=least("unclean.leader.election.enable", any, boolean),
        flush_messages=flush,
    )
