"""What follows from a plan's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.clients import payload
from harness.cluster.distribution.versions import Metadata, default_metadata
from harness.cluster.table import CLUSTERS
from harness.model.check_options import CheckOptions, Settings
from harness.plan.test_plan import TestPlan
from workloads.recovery.scenarios import SCENARIOS

# At most: the header of a batch (61), what a record has beside its value, and what compression may add. A
# transaction's marker takes less.
BATCH_BYTES: Final = 200


def is_attached(plan: TestPlan) -> bool:
    """Whether the cluster is there before the run, and stays."""
    return CLUSTERS[plan.cluster].attached or bool(plan.cluster_name)


def metadata_mode(plan: TestPlan) -> Metadata:
    """Where the metadata is."""
    return plan.metadata or default_metadata(plan.kafka_version)


def scheduled(plan: TestPlan) -> tuple[str, ...]:
    """The faults of the schedule, each once."""
    return tuple(dict.fromkeys(line.fault for line in plan.schedule))


def client_versions(plan: TestPlan) -> Mapping[str, str]:
    """Versions of client libraries by name, of those that are not the default. Raises ValueError."""
    pairs = [part.strip() for part in plan.client_version.split(",") if part.strip()]
    if len(pairs) == 1 and "=" not in pairs[0]:
        if len(set(plan.client)) > 1:
            raise ValueError(f"--client-version {pairs[0]}: say whose it is: {plan.client[0]}={pairs[0]},...")
        return {plan.client[0]: pairs[0]}
    by_name = {name.strip(): version.strip() for name, _, version in (pair.partition("=") for pair in pairs)}
    for name, version in by_name.items():
        if not name or not version:
            raise ValueError(f"--client-version {plan.client_version}: write it as NAME=VERSION,...")
    return by_name


def libraries(plan: TestPlan) -> tuple[str, ...]:
    """Names of the clients in the workers, which the slots take in turns."""
    return ("sim",) if plan.cluster == "sim" else plan.client


def clients_per_worker(plan: TestPlan) -> int:
    """The simulated log lives in one worker, with every client."""
    return plan.concurrency if plan.cluster == "sim" else plan.clients_per_process


def replication_factor(plan: TestPlan) -> int:
    """The default is capped by the number of nodes."""
    return min(plan.replication, plan.nodes)


def min_isr(plan: TestPlan) -> int:
    """The default is capped by the replication factor."""
    return min(plan.min_insync_replicas, replication_factor(plan))


def idempotent(plan: TestPlan) -> bool:
    """Unless the plan says: on with acks=all and retries, where a retry would otherwise make duplicates
    (KIP-679 made that the default of Kafka's producers), off elsewhere."""
    if plan.idempotence is not None:
        return plan.idempotence or plan.txn
    return plan.txn or (plan.acks == "all" and plan.retries != 0)


def partition_count(plan: TestPlan) -> int:
    """How many partitions the load writes to from the beginning: one for each key, or the inputs."""
    return plan.partitions * plan.input_topics if plan.workload == "pipeline" else plan.key_count


def txn_length_max(plan: TestPlan) -> int:
    """4 micro-ops in transactions and 1 outside, unless the plan says."""
    if plan.max_txn_length is not None:
        return plan.max_txn_length
    return max(4 if plan.txn else 1, plan.min_txn_length)


def settings(plan: TestPlan) -> Settings:
    """What the guarantees follow from."""
    producer, broker = plan.producer_config, plan.broker_config
    idempotence = producer.get("enable.idempotence", str(idempotent(plan))).lower()
    return Settings(
        acks=str(producer.get("acks", plan.acks)),
        retries=int(producer["retries"]) if "retries" in producer else plan.retries,
        max_in_flight=int(producer.get("max.in.flight.requests.per.connection", 0)) or None,
        idempotence=idempotence == "true",
        txn=plan.txn,
        isolation_level=plan.isolation_level,
        auto_offset_reset=plan.auto_offset_reset,
        replication=replication_factor(plan),
        min_insync_replicas=int(broker.get("min.insync.replicas", min_isr(plan))),
        unclean_election=broker.get("unclean.leader.election.enable") == "true",
        cleanup_policy=broker.get("log.cleanup.policy", "delete"),
        flush_messages=int(broker.get("log.flush.interval.messages", 0)) or None,
        sub_via=frozenset(plan.sub_via),
        group_protocol=plan.consumer_config.get("group.protocol", "classic"),
        damaged_copies=SCENARIOS[plan.scenario].damaged if plan.scenario else 0,
        unsynced_copies=SCENARIOS[plan.scenario].unsynced if plan.scenario else 0,
        record_bytes=payload.at_most(plan.record_bytes) + BATCH_BYTES,
        broker=dict(broker),
    )


def check_options(plan: TestPlan) -> CheckOptions:
    """What the checker is told of this plan by itself; see `resolve.judged_by` for the rest."""
    return CheckOptions(
        ww_deps=plan.ww_deps,
        sub_via=frozenset(plan.sub_via),
        jepsen_compatible=plan.jepsen_compatible,
        settings=settings(plan),
        expected_faults=tuple(dict.fromkeys((*plan.nemesis, *scheduled(plan)))),
        require_final_polls=True,
    )
