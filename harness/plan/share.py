"""Defaults and rules of the options of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.clients.table import CLIENTS, row
from harness.cluster.distribution import versions
from harness.plan import derived
from harness.plan.derived import STATE_MIN_ISR, STATE_REPLICATION
from harness.plan.test_plan import TestPlan
from workloads.share import STRIDE
from workloads.topic_recreation import PARTITIONS_MAX

KIND: Final = "share"
SINCE: Final = (4, 2, 0)  # share.version is finalized in new clusters (KIP-932)
DEAD_LETTERS: Final = (4, 4, 0)  # KIP-1191
PREVIEW: Final = (4, 1, 0)
HEARTBEAT_MS: Final = 1000
COORDINATOR: Final = "share-coordinator"
LIMIT: Final = "group.share.delivery.count.limit"
CLIENTS_DEFAULT: Final = 8
PARTITIONS: Final = 4


def defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds the fields that follow from the options of share groups, and the broker settings that allow short locks."""
    if values.get("workload") != KIND:
        return values
    given = {name: field.get_default() for name, field in TestPlan.model_fields.items()} | dict(values)
    added: dict[str, Any] = {"concurrency": CLIENTS_DEFAULT, "partitions": PARTITIONS, **values}
    added["partitions_per_topic"] = STRIDE
    if "java" in given["client"] and not given["client_version"]:
        added["client_version"] = f"java={_java(str(added.get('kafka_version', versions.DEFAULT)))}"
    if str(given["cluster"]) in ("local", "docker") and not given.get("cluster_name"):
        added["broker_config"] = {**broker_config(given), **(values.get("broker_config") or {})}
    return added


def _java(kafka_version: str) -> str:
    """Returns the version of the Java client: that of the brokers, if it has a stable share consumer."""
    version = versions.SERIES.get(kafka_version, kafka_version)
    try:
        return version if versions.parse_version(version) >= SINCE else versions.DEFAULT
    except ValueError:  # validation of the field reports this
        return versions.DEFAULT


def broker_config(given: Mapping[str, Any]) -> dict[str, str]:
    """Returns the broker settings for these values of the plan: lower bounds of times, and the delivery limit."""
    session_ms = int(float(given["share_session_s"]) * 1000)
    return {
        "group.share.min.session.timeout.ms": str(session_ms),
        "group.share.session.timeout.ms": str(session_ms),
        "group.share.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.share.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.share.min.record.lock.duration.ms": "1000",
        # Leaders move only when a fault makes them. What a leader had not stored by then is excused.
        "auto.leader.rebalance.enable": "false",
        LIMIT: str(given["share_delivery_limit"]),
        "share.coordinator.state.topic.num.partitions": "6",
        STATE_REPLICATION: str(min(3, int(given["nodes"]))),
        STATE_MIN_ISR: str(min(2, int(given["nodes"]))),
    }


def group_config(plan: TestPlan) -> dict[str, str]:
    """Returns the settings of the run's share groups."""
    return {
        "share.isolation.level": plan.isolation_level,
        "share.auto.offset.reset": plan.auto_offset_reset,
        "share.record.lock.duration.ms": str(int(plan.share_lock_s * 1000)),
    }


def groups(plan: TestPlan) -> list[str]:
    """Returns the names of the run's share groups."""
    return [f"{plan.run}-g{number}" for number in range(plan.share_groups)] if plan.workload == KIND else []


def rule(plan: TestPlan) -> None:
    """Checks the options of share groups. Raises ValueError with what to do instead."""
    faults = (*plan.nemesis, *derived.scheduled(plan))
    if plan.workload != KIND:
        if plan.share_dead_letters:
            raise ValueError("--share-dead-letters needs --workload share")
        if plan.share_recreate:
            raise ValueError("--share-recreate needs --workload share")
        for fault in faults:
            if fault.endswith(f":{COORDINATOR}"):
                raise ValueError(f"--nemesis {fault} needs --workload share: other workloads have no share groups")
        return
    if plan.cluster in ("sim", "mock"):
        raise ValueError(f"--cluster {plan.cluster} has no share groups: --workload share needs Kafka brokers")
    if not all(row(name).share for name in plan.client):
        takes = " and ".join(name for name, library in CLIENTS.items() if library.share)
        raise ValueError(f"--client {','.join(plan.client)}: --workload share supports {takes}")
    if not derived.is_attached(plan):
        _refuse_version(plan)
    elif plan.share_dead_letters:
        raise ValueError(
            "--share-dead-letters needs a cluster that the harness starts, whose brokers' settings it knows"
        )
    java = derived.client_versions(plan).get("java")
    if java and versions.parse_version(versions.SERIES.get(java, java)) < SINCE:
        raise ValueError(f"--client-version java={java}: KafkaShareConsumer is stable since 4.2; name a later version")
    limit = plan.broker_config.get(LIMIT, str(plan.share_delivery_limit))
    if limit != str(plan.share_delivery_limit):
        raise ValueError(
            f"--broker-config {LIMIT}={limit}: use --share-delivery-limit {limit}, so that the check knows it"
        )
    members = plan.concurrency - plan.writers
    if members < plan.share_groups:
        raise ValueError(
            f"--concurrency {plan.concurrency}: with --writers {plan.writers}, {max(0, members)} clients are left for "
            f"{plan.share_groups} share groups, which need a member each"
        )
    _check_recreation(plan, faults)
    if plan.partitions > STRIDE // 2:
        raise ValueError(f"--partitions {plan.partitions}: --workload share supports up to {STRIDE // 2}")


def _check_recreation(plan: TestPlan, faults: Sequence[str]) -> None:
    if not plan.share_recreate:
        return
    if plan.share_dead_letters or any(fault.startswith("add-partitions") for fault in faults):
        raise ValueError("--share-recreate: cannot be combined with --share-dead-letters or the fault add-partitions")
    if plan.auto_offset_reset != "earliest":
        raise ValueError("--share-recreate: needs --auto-offset-reset earliest; where else groups start is unknown")
    if plan.partitions > PARTITIONS_MAX:
        raise ValueError(
            f"--share-recreate: supports up to {PARTITIONS_MAX} partitions, not --partitions {plan.partitions}"
        )


def _refuse_version(plan: TestPlan) -> None:
    number = versions.parse_version(plan.kafka_version)
    if number < PREVIEW:
        raise ValueError(f"--kafka-version {plan.kafka_version}: Kafka has share groups since 4.1; use 4.2 or later")
    if number < SINCE:
        raise ValueError(
            f"--kafka-version {plan.kafka_version}: share groups are a preview there, and new clusters do not enable "
            "the feature share.version; use 4.2 or later"
        )
    if plan.share_dead_letters and number < DEAD_LETTERS:
        raise ValueError(
            f"--share-dead-letters: Kafka {plan.kafka_version} has no dead letter queues; use 4.4 or later"
        )


def workload_options(plan: TestPlan) -> Mapping[str, Any]:
    """Returns the options of the share workload that are not fields of the plan, or have another name there."""
    return {
        "members": plan.concurrency - plan.writers,
        "topics": plan.share_topics,
        "groups": plan.share_groups,
        "acknowledgement": plan.share_acknowledgement,
        "lock_s": plan.share_lock_s,
        "session_s": plan.share_session_s,
        "final_s": plan.final_time_limit_s,
        "release_p": plan.share_release_p,
        "reject_p": plan.share_reject_p,
        "renew_p": plan.share_renew_p,
        "hold_p": plan.share_hold_p,
        "leave_p": plan.share_leave_p,
        "crash_p": plan.share_crash_p,
        "dead_letters": plan.share_dead_letters,
        "recreate_s": plan.time_limit_s / 2 if plan.share_recreate else 0.0,
        "renews": tuple(name == "java" for name in plan.client),
        "grows": any(fault.startswith("add-partitions") for fault in (*plan.nemesis, *derived.scheduled(plan))),
    }
