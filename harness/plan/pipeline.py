"""Defaults and rules of the pipeline's options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from harness.clients.exec.command import PREFIX
from harness.clients.table import CLIENTS, row
from harness.pipeline_app import ports
from harness.pipeline_app.mistakes import MISTAKES, NOT_FENCED
from harness.plan.derived import client_versions, partition_count, scheduled
from harness.plan.test_plan import TestPlan

FLUSH_S: Final = 0.25
FILES_FLUSH_S: Final = 30.0
# Their counts must fit the metadata of a commit (offset.metadata.max.bytes, 4096).
KEYS_PER_PARTITION: Final = 100
# With the new group protocol the session timeout is a broker setting (KIP-848); made as short as in the classic one.
CONSUMER_SESSION: Final[Mapping[str, str]] = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}


def defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the values of a plan, with the fields that follow from the pipeline's options, such as concurrency.

    Raises ValueError if the plan sets one of these fields to another value.
    """
    if values.get("workload") != "pipeline":
        return values
    given = {name: field.get_default() for name, field in TestPlan.model_fields.items()} | dict(values)
    follows: dict[str, Any] = {
        "concurrency": int(given["writers"]) + int(given["instances"]),
        "partitions_per_topic": int(given["partitions"]),
        "sub_via": ("subscribe",),
    }
    for name, value in follows.items():
        # The plan of a stored run names every option, so a changed --instances must not conflict with its concurrency.
        requested = value if "schema" in values else values.get(name, value)
        if (tuple(requested) if name == "sub_via" else int(requested)) != value:
            raise ValueError(
                f"--{name.replace('_', '-')}: --workload pipeline derives this value from --writers, "
                "--instances and --partitions; omit it"
            )
    added = {**values, **follows}
    own = str(given["cluster"]) in ("local", "docker") and not given.get("cluster_name")
    if given["assignor"] == "consumer" and own:
        added["broker_config"] = {**CONSUMER_SESSION, **(values.get("broker_config") or {})}
    return added


def rule(plan: TestPlan) -> None:
    """Checks the pipeline's options. Raises ValueError with a text that says what to do instead."""
    mistake = plan.pipeline_mistake
    if plan.workload != "pipeline":
        if mistake:
            raise ValueError(f"--pipeline-mistake {mistake} requires --workload pipeline")
        return
    if not all(row(name).pipeline for name in plan.client):
        takes = " or ".join(library.written or name for name, library in CLIENTS.items() if library.pipeline)
        raise ValueError(f"--client {','.join(plan.client)}: --workload pipeline supports {takes}")
    if plan.cluster == "sim":
        raise ValueError("--cluster sim has no consumer groups: --workload pipeline needs brokers")
    if plan.txn:
        raise ValueError("--txn cannot be combined with --workload pipeline: see --pipeline-mode")
    if mistake and mistake not in MISTAKES:
        known = "".join(f"\n  {name}: {row.does}" for name, row in MISTAKES.items())
        raise ValueError(f"--pipeline-mistake {mistake}: unknown; choose from{known}")
    if mistake and plan.pipeline_mode not in ("exactly-once", "files"):
        raise ValueError(
            f"--pipeline-mistake {mistake} requires --pipeline-mode exactly-once or files: "
            f"{plan.pipeline_mode} does not promise that each record is processed once"
        )
    if plan.assignor == "consumer" and older(plan.kafka_version, (4, 0)):
        raise ValueError(f"--assignor consumer needs Kafka 4.0 or later, but --kafka-version is {plan.kafka_version}")
    if programs := [name for name in plan.client if name.startswith(PREFIX)]:
        _refuse_of_programs(plan, programs[0])
    if "java" in plan.client:
        # groupMetadata needs 2.5 (KIP-447). Under KIP-848 too, the client waits for the rebalance listener since 4.0.
        needed = (4, 0) if plan.assignor == "consumer" else (2, 5)
        version = client_versions(plan).get("java")
        if version and older(version, needed):
            raise ValueError(
                f"--client-version java={version}: --workload pipeline needs {needed[0]}.{needed[1]} or later"
                + (" with --assignor consumer" if plan.assignor == "consumer" else "")
            )
    partitions = partition_count(plan)
    per_partition = -(-plan.key_count // partitions)
    if plan.transform == "aggregate" and per_partition > KEYS_PER_PARTITION:
        raise ValueError(
            f"--key-count {plan.key_count}: --transform aggregate stores its counts in the commit metadata, which "
            f"has room for {KEYS_PER_PARTITION} keys in each of the {partitions} partitions"
        )


def _refuse_of_programs(plan: TestPlan, client: str) -> None:
    """Raises ValueError for options that the protocol of client programs cannot express."""
    why = {
        "--transform aggregate": plan.transform == "aggregate" and "the metadata of committed offsets",
        "--static-members": plan.static_members and "group.instance.id",
        f"--pipeline-mistake {NOT_FENCED}": plan.pipeline_mistake == NOT_FENCED and "commits without a member",
    }
    for option, lacks in why.items():
        if lacks:
            raise ValueError(
                f"{option} cannot be combined with --client {client}: the protocol of client programs has no {lacks}"
            )


def older(version: str, than: tuple[int, int]) -> bool:
    """Returns whether a version such as "3.9.1" is older than (major, minor)."""
    parts = re.match(r"(\d+)(?:\.(\d+))?", version)
    return parts is not None and (int(parts[1]), int(parts[2] or than[1])) < than


def workload_options(plan: TestPlan) -> Mapping[str, Any]:
    """Returns the options of the pipeline workload that are not fields of the plan or have other names there."""
    flush_s = plan.flush_s
    if flush_s is None:
        flush_s = FILES_FLUSH_S if plan.pipeline_mode == "files" else FLUSH_S
    return {
        "inputs": plan.input_topics,
        "batch": plan.send_batch,
        "churn_s": plan.churn_interval_s,
        "final_s": plan.final_time_limit_s,
        "instance": ports.Options(
            mode=plan.pipeline_mode,
            transform=plan.transform,
            mistake=plan.pipeline_mistake or None,
            flush_s=flush_s,
            abort_p=plan.abort_p,
            seed=plan.seed,
        ),
        "grows": any(fault.startswith("add-partitions") for fault in (*plan.nemesis, *scheduled(plan))),
        "group_existed": plan.auto_offset_reset == "latest",
    }
