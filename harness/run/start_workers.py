"""Starts the worker processes of a run, for the clients and for admin calls. Also sets up topics and role queries."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from harness.clients.exec import process
from harness.clients.settings import Settings
from harness.clients.settings import parse_settings as client_settings
from harness.clients.table import library_of
from harness.model.capabilities import Cluster, Hosts, offers
from harness.model.errors_and_exit_codes import BadInput
from harness.model.fault_and_generator_protocols import Roles
from harness.plan import derived, groups, share
from harness.plan.resolve import ResolvedPlan
from harness.plan.test_plan import TestPlan
from harness.run import attached_cluster, client_versions, share_groups, state_folders
from harness.run.roles import AdminRoles, Viewed, ViewRoles
from harness.run.topics import Topics
from harness.run.worker_pool import AdminLink, Crew

Say = Callable[[str], None]
TOPIC_IDS_S: Final = 7.0
log = logging.getLogger("harness")


# Client settings that have the same name as a field of the plan.
SAME_NAMES: Final = tuple(setting.name for setting in fields(Settings) if setting.name in TestPlan.model_fields)


@dataclass(frozen=True, slots=True)
class Staff:
    """The worker processes of a run and what uses them.

    crew    the workers of the clients
    topics  creates the run's topics
    roles   finds leaders, controllers and coordinators
    admin   makes calls to the admin worker
    """

    crew: Crew
    topics: Topics
    roles: Roles
    admin: AdminLink


def client_config(plan: TestPlan, bootstrap: str) -> dict[str, Any]:
    """Returns the configuration of the clients in the workers, as plain data."""
    # librdkafka's mock cluster writes transaction markers without a valid checksum, at which a consumer would stop.
    quirks = {"check.crcs": "false"} if plan.cluster == "mock" else {}
    libraries = derived.libraries(plan)
    return {
        **{name: getattr(plan, name) for name in SAME_NAMES},
        "libraries": list(libraries),
        **({"java": client_versions.java_client(plan, log.info)} if "java" in libraries else {}),
        "seed": plan.seed,
        "sim": {"bugs": list(plan.sim_bugs)},
        "bootstrap": bootstrap,
        "sub_via": list(plan.sub_via),
        "client_env": list(plan.client_env),
        "client_user": plan.client_user,
        "connection": attached_cluster.connecting(plan),
        "concurrency": plan.concurrency,
        "idempotence": derived.idempotent(plan),
        "record_size": plan.record_bytes,
        "consumer_config": {**quirks, **plan.consumer_config},
        "group_protocols": groups.properties(plan),
        "static_members": groups.static(plan),
    }


def client_needs(resolved: ResolvedPlan) -> dict[str, Any]:
    """Returns the part of the clients' configuration that determines which capabilities a client program needs."""
    plan, workload = resolved.plan, resolved.workload
    return {
        "idempotence": derived.idempotent(plan),
        "txn": plan.txn,
        "sub_via": list(plan.sub_via),
        "logic_options": dict(workload.client_options),
        "consumer_config": {
            name: value
            for properties in (*groups.properties(plan), workload.consumer_config, plan.consumer_config)
            for name, value in properties.items()
        },
    }


def refuse_properties(plan: TestPlan) -> None:
    """Raises BadInput for producer and consumer settings that librdkafka rejects, before anything is started.

    Other libraries, and other versions of librdkafka, check their settings when the workers start.
    """
    if not (plan.producer_config or plan.consumer_config) or derived.client_versions(plan):
        return
    if tuple(derived.libraries(plan)) != ("confluent",):
        return
    from harness.clients.confluent import adapter

    quiet = {"log_level": 0}  # otherwise it logs that no broker is at this address
    given = {name: {**quiet, **getattr(plan, name)} for name in ("producer_config", "consumer_config")}
    config = {**{name: getattr(plan, name) for name in SAME_NAMES}, "run": "check", "bootstrap": "127.0.0.1:1", **given}
    wrong = adapter.problem({**config, "idempotence": derived.idempotent(plan)})
    if wrong:
        raise BadInput(wrong)


def _problem(cluster: Hosts, config: dict[str, Any], folder: Path, env: dict[str, str]) -> Any:
    """Returns the first problem that the workers' versions of the client libraries report with the settings, or ""."""
    admin = AdminLink(cluster, config, folder / "logs", env)
    try:
        return admin.call("problem", 30.0)
    finally:
        admin.stop()


def libraries_of_slots(plan: TestPlan) -> list[str]:
    """Returns the client library of each slot. The slot of a process is its number modulo the concurrency."""
    libraries = derived.libraries(plan)
    return [library_of(slot, plan.concurrency, libraries) for slot in range(plan.concurrency)]


def hire(folder: Path, resolved: ResolvedPlan, cluster: Cluster, stack: contextlib.ExitStack, say: Say) -> Staff:
    """Starts the admin worker and the client workers, and creates the first topics.

    Raises BadInput if a client library rejects the settings.
    """
    assert isinstance(cluster, Hosts)
    plan, workload = resolved.plan, resolved.workload
    config = client_config(plan, cluster.bootstrap)
    config |= {
        "logic": workload.client,
        "logic_options": dict(workload.client_options),
        "folder": str(folder.resolve()),
        **({} if plan.app is None else {"app_state": state_folders.make(stack)}),
        "consumer_config": {**workload.consumer_config, **config["consumer_config"]},
    }
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    # The harness's own requests bypass the proxy.
    direct = getattr(cluster, "direct_bootstrap", cluster.bootstrap)
    admin = AdminLink(cluster, {**config, "bootstrap": direct}, folder / "logs", env)
    stack.callback(admin.stop)
    stack.callback(attached_cluster.remove_topics, plan, cluster, admin.call, say)
    worker_env = {**env, **client_versions.worker_env(plan, say)}
    problem = admin.call("problem", 30.0) if worker_env == env else _problem(cluster, config, folder, worker_env)
    if problem:
        raise BadInput(str(problem))
    per_worker, logs = derived.clients_per_worker(plan), folder / "logs"
    crew = Crew(cluster, config, plan.concurrency, per_worker, logs, worker_env, workload.hit)
    stack.callback(process.remove_folders, plan.run)
    stack.callback(crew.stop)
    topics = Topics(
        admin.call,
        plan.run,
        plan.partitions_per_topic,
        derived.replication_factor(plan),
        attached_cluster.topic_config(plan),
        inputs=plan.input_topics if derived.has_pipeline(plan) else 0,
        created=derived.partitions_of_new_topic(plan),
    )
    topics.ensure(derived.partition_count(plan) - 1)
    share_groups.prepare(plan, admin.call)
    attached_cluster.check_allowed(plan, admin.call)
    attached_cluster.remove_left(cluster, admin.call)
    crew.start()
    return Staff(crew, topics, _roles(plan, cluster, admin, client_settings(config).group_id), admin)


def _roles(plan: TestPlan, cluster: Cluster, admin: AdminLink, group: str) -> Roles:
    """Returns the object that finds leaders, controllers and coordinators.

    It queries each broker if the cluster allows this, otherwise it uses the admin worker.
    """
    replication = derived.replication_factor(plan)
    if offers(cluster, Viewed):
        groups = share.groups(plan)
        return ViewRoles(
            cluster,
            plan.run,
            group,
            plan.concurrency,
            replication,
            groups,
            lambda: admin.call("topic_ids", TOPIC_IDS_S),
        )
    brokers = getattr(cluster, "brokers", None) or dict(enumerate(cluster.nodes, start=1))
    return AdminRoles(admin.call, plan.run, brokers, replication)
