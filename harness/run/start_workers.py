"""The processes that work for a run: clients, the admin role, and who answers what the cluster knows."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.clients.settings import settings as client_settings
from harness.clients.table import library_of
from harness.model.capabilities import Cluster, Hosts, offers
from harness.model.errors import BadInput
from harness.model.protocols import Roles
from harness.plan.test_plan import TestPlan
from harness.run import attached, client_versions, make_workload
from harness.run.roles import AdminRoles, Topics, Viewed, ViewRoles
from harness.run.worker_pool import AdminLink, Crew

Say = Callable[[str], None]
log = logging.getLogger("harness")


def client_config(plan: TestPlan, bootstrap: str) -> dict[str, Any]:
    """Plain data for the clients in the workers."""
    # librdkafka's mock cluster gives transaction markers no valid checksum, where a consumer would stop.
    quirks = {"check.crcs": "false"} if plan.cluster == "mock" else {}
    return {
        "libraries": list(plan.libraries),
        **({"java": client_versions.java_client(plan, log.info)} if "java" in plan.libraries else {}),
        "seed": plan.seed,
        "sim": {"bugs": list(plan.sim_bugs)},
        "bootstrap": bootstrap,
        "connection": attached.connecting(plan),
        "run": plan.run,
        "concurrency": plan.concurrency,
        "partitions_per_topic": plan.partitions_per_topic,
        "acks": plan.acks,
        "retries": plan.retries,
        "idempotence": plan.idempotent,
        "txn": plan.txn,
        "isolation_level": plan.isolation_level,
        "auto_offset_reset": plan.auto_offset_reset,
        "auto_commit": plan.auto_commit,
        "logical_offsets": plan.logical_offsets,
        "delivery_timeout_s": plan.delivery_timeout_s,
        "request_timeout_s": plan.request_timeout_s,
        "op_timeout_s": plan.op_timeout_s,
        "poll_ms": plan.poll_ms,
        "record_size": plan.record_bytes,
        "pipelined": plan.pipelined,
        "rewind": plan.rewind,
        "producer_config": plan.producer_config,
        "consumer_config": {**quirks, **plan.consumer_config},
    }


def _problem(cluster: Hosts, config: dict[str, Any], folder: Path, env: dict[str, str]) -> Any:
    """What libraries of the versions that the workers will have have against the settings."""
    asked = AdminLink(cluster, config, folder / "logs", env)
    try:
        return asked.call("problem", 30.0)
    finally:
        asked.stop()


def libraries_of_slots(plan: TestPlan) -> list[str]:
    """Whose client each slot is; a process's slot is its number modulo the concurrency."""
    return [library_of(slot, plan.concurrency, plan.libraries) for slot in range(plan.concurrency)]


def hire(
    folder: Path, plan: TestPlan, cluster: Cluster, stack: contextlib.ExitStack, say: Say
) -> tuple[Crew, Topics, Roles, AdminLink]:
    """Start the admin worker and the clients, make the first topics. Raises BadInput for client settings."""
    assert isinstance(cluster, Hosts)
    workload = make_workload.make(plan)
    config = client_config(plan, cluster.bootstrap)
    config |= {
        "logic": workload.client,
        "logic_options": dict(workload.client_options),
        "folder": str(folder.resolve()),
        "consumer_config": {**workload.consumer_config, **config["consumer_config"]},
    }
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    # The harness's own requests go to the brokers directly.
    direct = getattr(cluster, "direct_bootstrap", cluster.bootstrap)
    admin = AdminLink(cluster, {**config, "bootstrap": direct}, folder / "logs", env)
    stack.callback(admin.stop)
    stack.callback(attached.remove_topics, plan, cluster, admin.call, say)
    ours = {**env, **client_versions.worker_env(plan, say)}
    problem = admin.call("problem", 30.0) if ours == env else _problem(cluster, config, folder, ours)
    if problem:
        raise BadInput(str(problem))
    crew = Crew(cluster, config, plan.concurrency, plan.clients_per_worker, folder / "logs", ours)
    stack.callback(crew.stop)
    config_of_topics = attached.topic_config(plan)
    topics = Topics(
        admin.call, plan.run, plan.partitions_per_topic, plan.replication_factor, config_of_topics,
        inputs=plan.input_topics if plan.workload == "pipeline" else 0,
    )  # fmt: skip
    topics.ensure(plan.partition_count - 1)
    attached.check_allowed(plan, admin.call)
    attached.remove_left(cluster, admin.call)
    crew.start()
    if offers(cluster, Viewed):
        group = client_settings(config).group_id
        roles = ViewRoles(cluster, plan.run, group, plan.concurrency, plan.replication_factor)
        return crew, topics, roles, admin
    brokers = getattr(cluster, "brokers", None) or dict(enumerate(cluster.nodes, start=1))
    return crew, topics, AdminRoles(admin.call, plan.run, brokers, plan.replication_factor), admin
