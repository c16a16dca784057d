"""Values derived from a plan's fields, such as partition counts, settings and check options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.clients import payload
from harness.clients.settings import SESSION_TIMEOUT_S, TRANSACTION_TIMEOUT_S
from harness.cluster.distribution.broker_config import defaults as broker_defaults
from harness.cluster.distribution.versions import KRAFT, ZOOKEEPER, Metadata, default_metadata, parse_version, resolve
from harness.cluster.table import CLUSTERS
from harness.model.check_options import CheckOptions, InternalTopic, Settings, ShareGroups
from harness.model.fault_and_generator_protocols import CONSUMER_GROUP, GROUP, SHARE_GROUP, TRANSACTIONS, USES
from harness.plan.setting_values import boolean, client_acks, client_boolean, given, weakest_acks, whole
from harness.plan.settings_in_force import COMMIT_ACKS, shortest
from harness.plan.test_plan import TestPlan
from workloads.recovery.scenarios import SCENARIOS

# Upper bound of what a record batch adds to the value: the header of the batch (61 bytes), the other fields of
# the record, and the overhead of compression. A transaction marker is smaller.
BATCH_BYTES: Final = 200
FENCED_OFFSETS: Final = (2, 5, 0)  # of brokers and of the Java client (KIP-447)
# aiokafka gives up partitions in the background, and sends offsets in transactions without the member's generation.
RECORD_REVOCATIONS: Final = frozenset({"confluent", "java"})
CONSUMER_SESSION: Final = "group.consumer.session.timeout.ms"
CONSUMER_SESSION_S: Final = 45.0  # the brokers' default (KIP-848)
STATE_REPLICATION: Final = "share.coordinator.state.topic.replication.factor"
STATE_MIN_ISR: Final = "share.coordinator.state.topic.min.isr"


def is_attached(plan: TestPlan) -> bool:
    """Returns whether the cluster exists before the run and stays up after it."""
    return CLUSTERS[plan.cluster].attached or bool(plan.cluster_name)


def metadata_mode(plan: TestPlan) -> Metadata:
    """Returns where the cluster keeps its metadata: in KRaft or in ZooKeeper."""
    return plan.metadata or default_metadata(plan.kafka_version)


def metadata_judged(plan: TestPlan) -> bool:
    """Returns whether the check of the metadata log applies: to KRaft, on clusters whose logs the harness can read.

    A run of the log model has no such check, because it is judged as it runs.
    """
    of_kraft = plan.cluster == "local" and metadata_mode(plan) == KRAFT
    return of_kraft and plan.workload != "log-model" and not plan.jepsen_compatible


def scheduled(plan: TestPlan) -> tuple[str, ...]:
    """Returns the names of the faults in the schedule, without duplicates."""
    return tuple(dict.fromkeys(line.fault for line in plan.schedule))


def client_versions(plan: TestPlan) -> Mapping[str, str]:
    """Returns client library -> version, for each library whose version the plan sets. Raises ValueError."""
    pairs = [part.strip() for part in plan.client_version.split(",") if part.strip()]
    if len(pairs) == 1 and "=" not in pairs[0]:
        if len(set(plan.client)) > 1:
            raise ValueError(
                f"--client-version {pairs[0]}: name the library that it is a version of, as in "
                f"{plan.client[0]}={pairs[0]},..."
            )
        return {plan.client[0]: pairs[0]}
    by_name = {name.strip(): version.strip() for name, _, version in (pair.partition("=") for pair in pairs)}
    for name, version in by_name.items():
        if not name or not version:
            raise ValueError(f"--client-version {plan.client_version}: write it as NAME=VERSION,...")
    return by_name


def libraries(plan: TestPlan) -> tuple[str, ...]:
    """Returns the names of the client libraries. Worker slots use them in turn."""
    return ("sim",) if plan.cluster == "sim" else plan.client


def clients_per_worker(plan: TestPlan) -> int:
    """Returns the number of clients in each worker process. With the simulated log, one worker runs all clients."""
    return plan.concurrency if plan.cluster == "sim" else plan.clients_per_process


def replication_factor(plan: TestPlan) -> int:
    """Returns the replication factor of the run's topics, which is at most the number of nodes."""
    return min(plan.replication, plan.nodes)


def min_isr(plan: TestPlan) -> int:
    """Returns min.insync.replicas of the run's topics, which is at most the replication factor."""
    return min(plan.min_insync_replicas, replication_factor(plan))


def idempotent(plan: TestPlan) -> bool:
    """Returns whether producers are idempotent.

    By default, producers are idempotent if acks=all and they retry, because a retry could otherwise write duplicates.
    KIP-679 made this the default of Kafka's own producers.
    """
    if plan.idempotence is not None:
        return plan.idempotence or plan.txn
    return plan.txn or (plan.acks == "all" and plan.retries != 0)


def has_pipeline(plan: TestPlan) -> bool:
    """Returns whether records pass from input topics to an output topic: through our pipeline or an application."""
    return plan.workload in ("pipeline", "app")


def uses(plan: TestPlan) -> frozenset[str]:
    """Returns what the load uses that a fault can act on: keys of `USES`. An application may use transactions."""
    if has_pipeline(plan):
        return frozenset(USES) - {SHARE_GROUP}
    transactions = {TRANSACTIONS} if plan.txn else set()
    if plan.workload == "share":
        return frozenset({GROUP, SHARE_GROUP, *transactions})
    subscribed = plan.workload == "queue" and "subscribe" in plan.sub_via
    return frozenset({*({CONSUMER_GROUP, GROUP} if subscribed else ()), *transactions})


def partition_count(plan: TestPlan) -> int:
    """Returns how many partitions the load writes to at the start.

    This is one partition for each key or, with a pipeline, the number of partitions of all input topics.
    """
    if plan.workload == "share":
        return plan.share_topics * plan.partitions_per_topic
    return plan.partitions * plan.input_topics if has_pipeline(plan) else plan.key_count


def partitions_of_new_topic(plan: TestPlan) -> int:
    """Returns the number of partitions with which topics are created.

    With share groups it is smaller than `partitions_per_topic`, so that partitions that are added later have keys.
    """
    return plan.partitions if plan.workload == "share" else plan.partitions_per_topic


def txn_length_max(plan: TestPlan) -> int:
    """Returns the largest number of micro-operations in an op. The default is 4 with transactions and 1 otherwise."""
    if plan.max_txn_length is not None:
        return plan.max_txn_length
    return max(4 if plan.txn else 1, plan.min_txn_length)


def settings(plan: TestPlan) -> Settings:
    """Returns the settings on which Kafka's guarantees depend, according to the plan.

    The cluster may use other values: `settings_in_force` replaces those that the cluster reports.
    """
    producer, consumer, broker = plan.producer_config, plan.consumer_config, plan.broker_config
    idempotence = given(producer, "enable.idempotence")
    acks, crcs = given(producer, "acks", "request.required.acks"), given(consumer, "check.crcs")
    retries = given(producer, "retries", "message.send.max.retries")
    in_flight = given(producer, "max.in.flight.requests.per.connection", "max.in.flight")
    min_isr_of_brokers = whole(broker.get("min.insync.replicas", str(min_isr(plan))))
    return Settings(
        acks=plan.acks if acks is None else weakest_acks(client_acks(acks, each) for each in libraries(plan)),
        retries=plan.retries if retries is None else whole(retries),
        max_in_flight=None if in_flight is None else whole(in_flight) or None,
        idempotence=idempotent(plan) if idempotence is None else _every_client(plan, idempotence),
        txn=plan.txn,
        isolation_level=plan.isolation_level,
        auto_offset_reset=plan.auto_offset_reset,
        replication=replication_factor(plan),
        # On an attached cluster the run's topics set their own value: `attached_cluster.topic_config`.
        min_insync_replicas=min_isr(plan) if is_attached(plan) else min_isr_of_brokers,
        unclean_election=_unclean(plan),
        cleanup_policy=broker.get("log.cleanup.policy", "delete"),
        flush_messages=whole(broker.get("log.flush.interval.messages", "0")) or None,
        sub_via=frozenset(plan.sub_via),
        group_protocol=_group_protocol(plan),
        eligible_leader_replicas=False if metadata_mode(plan) == ZOOKEEPER else None,
        producer_id_expiration_ms=shortest([broker]),
        check_crcs=plan.cluster != "mock" if crcs is None else _every_client(plan, crcs),
        offsets_topic=_internal(plan, "offsets.topic.replication.factor", "min.insync.replicas"),
        commits_fenced=_commits_fenced(plan),
        commit_acks=broker.get(COMMIT_ACKS),
        transactions_topic=_internal(plan, "transaction.state.log.replication.factor", "transaction.state.log.min.isr"),
        share=_share_groups(plan),
        damaged_copies=SCENARIOS[plan.scenario].damaged if plan.scenario else 0,
        unsynced_copies=SCENARIOS[plan.scenario].unsynced if plan.scenario else 0,
        record_bytes=payload.at_most(plan.record_bytes) + BATCH_BYTES,
        record_keys=plan.record_keys,
        broker=dict(broker),
    )


def transaction_timeout_s(plan: TestPlan) -> float:
    """Returns after how many seconds brokers abort a transaction whose client is gone."""
    timeout_ms = whole(given(plan.producer_config, "transaction.timeout.ms") or "")
    return TRANSACTION_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000


def session_timeout_s(plan: TestPlan) -> float:
    """Returns after how many seconds brokers remove a member of the consumer group that is gone."""
    timeout_ms = whole(given(plan.consumer_config, "session.timeout.ms") or "")
    classic_s = SESSION_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000
    if _group_protocol(plan) == "classic":
        return classic_s
    timeout_ms = whole(plan.broker_config.get(CONSUMER_SESSION, ""))
    return max(classic_s, CONSUMER_SESSION_S if timeout_ms is None else timeout_ms / 1000)


def _commits_fenced(plan: TestPlan) -> bool | None:
    """Returns whether brokers reject the commits of members that a group has removed; None if that is unknown.

    For offsets in transactions, this needs brokers and clients that support KIP-447.
    """
    if plan.cluster == "sim":
        return True
    if plan.cluster == "mock" or not set(plan.client) <= RECORD_REVOCATIONS:
        return None
    if not plan.txn:
        return True
    versions = [plan.kafka_version, client_versions(plan).get("java", plan.kafka_version)]
    fenced = all(parse_version(resolve(version)) >= FENCED_OFFSETS for version in versions)
    return True if fenced and not is_attached(plan) else None


def _group_protocol(plan: TestPlan) -> str:
    """Returns the protocol of the consumer groups. A group with members of both protocols has the new one."""
    if plan.group_protocol != "classic":
        return "consumer"
    return (given(plan.consumer_config, "group.protocol") or "classic").strip().lower()


def _share_groups(plan: TestPlan) -> ShareGroups:
    """Returns the settings of the plan's share groups; empty settings for a workload without share groups."""
    if plan.workload != "share":
        return ShareGroups()
    return ShareGroups(
        lock_ms=int(plan.share_lock_s * 1000),
        delivery_limit=None if is_attached(plan) else plan.share_delivery_limit,
        isolation_level=plan.isolation_level,
        auto_offset_reset=plan.auto_offset_reset,
        acknowledgement=plan.share_acknowledgement,
        partitions=plan.partitions,
        partitions_per_topic=plan.partitions_per_topic,
        state_topic=_internal(plan, STATE_REPLICATION, STATE_MIN_ISR)
        if STATE_REPLICATION in plan.broker_config
        else InternalTopic(),
    )


def _every_client(plan: TestPlan, text: str) -> bool | None:
    """Returns the value of a boolean setting for all clients together.

    Libraries may read the setting's text differently. Returns False if any library reads False, None if any library
    cannot read the text, and True otherwise.
    """
    answers = {client_boolean(text, library) for library in libraries(plan)}
    return False if False in answers else None if None in answers else True


def _unclean(plan: TestPlan) -> bool | None:
    """Returns whether replicas outside the ISR may become leaders.

    Returns None if an external cluster does not report this.
    """
    default = None if plan.cluster == "external" else "false"
    text = plan.broker_config.get("unclean.leader.election.enable", default)
    return None if text is None else boolean(text)


def _internal(plan: TestPlan, replication: str, min_isr_name: str) -> InternalTopic:
    """Returns the settings of an internal topic, on a cluster whose brokers the harness configures.

    For other clusters, returns empty settings, because the settings are not known until the cluster is queried.
    """
    if plan.cluster not in ("local", "ssh"):
        return InternalTopic()
    effective = {**broker_defaults(plan.nodes), "min.insync.replicas": str(min_isr(plan)), **plan.broker_config}
    in_sync_is_known = min_isr_name in plan.broker_config or not plan.cluster_name  # a named cluster sets its own
    return InternalTopic(
        replication=whole(effective[replication]),
        min_insync_replicas=whole(effective[min_isr_name]) if in_sync_is_known else None,
        unclean_election=_unclean(plan),
        flush_messages=whole(effective.get("log.flush.interval.messages", "0")) or None,
    )


def check_options(plan: TestPlan) -> CheckOptions:
    """Returns the options for checking the history that follow from the plan alone.

    `resolve.judged_by` adds the checks of the workload, and the settings that the cluster and the faults determine.
    """
    return CheckOptions(
        ww_deps=plan.ww_deps,
        sub_via=frozenset(plan.sub_via),
        jepsen_compatible=plan.jepsen_compatible,
        settings=settings(plan),
        expected_faults=tuple(dict.fromkeys((*plan.nemesis, *scheduled(plan)))),
        require_final_polls=True,
    )
