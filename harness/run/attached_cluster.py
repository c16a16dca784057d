"""Clusters that are there before a run and stay after it: what the plan learns of them, what is taken away.

Such a cluster is external (others run it), or named (`harness cluster up` started it).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from harness.clients import connection
from harness.cluster.persistent import client
from harness.cluster.persistent.named_cluster import NamedCluster
from harness.model.capabilities import Cluster
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.plan import derived, make_plan, plan_file
from harness.plan.test_plan import TestPlan, option_name

DELETE_S: Final = 30.0
ALLOWED_S: Final = 15.0
OF_CLUSTER: Final = (
    "kafka_version", "nodes", "metadata", "controllers", "network", "outside", "proxy", "broker_config",
    "system", "image", "hosts", "log_dirs",
)  # fmt: skip
Call = Callable[..., Any]
log = logging.getLogger("harness")


def connecting(plan: TestPlan) -> dict[str, str]:
    """How clients connect; secrets among it. Raises BadInput."""
    return connection.load(Path(plan.client_config)) if plan.client_config else {}


def settled(plan: TestPlan) -> TestPlan:
    """The plan with what the cluster says of itself; others as they are. Raises BadInput, Missing."""
    if plan.cluster_name:
        return _named(plan)
    if plan.cluster == "external":
        return _external(plan)
    if plan.cluster == "ssh":
        return _on_hosts(plan)
    return plan


def plan_of(name: str) -> TestPlan:
    """What a named cluster was started as. Raises BadInput when it is not up."""
    return plan_file.load(client.folder(client.find(name).name) / client.PLAN)


def _named(plan: TestPlan) -> TestPlan:
    """What `harness cluster up` decided, and a run on that cluster cannot."""
    client.find(plan.cluster_name, plan.cluster)
    kept = plan_of(plan.cluster_name)
    for field in OF_CLUSTER:
        requested, kept_value = getattr(plan, field), getattr(kept, field)
        if field in plan.model_fields_set and requested != kept_value:
            raise BadInput(
                f"{option_name(field)} {requested}: the cluster {plan.cluster_name} has {kept_value}; leave it "
                "out, or start another: harness cluster up NAME"
            )
    return make_plan.with_facts(plan, {field: getattr(kept, field) for field in OF_CLUSTER})


def _on_hosts(plan: TestPlan) -> TestPlan:
    """As many nodes as there are hosts."""
    from harness.cluster.ssh import hosts

    path = Path(plan.hosts).expanduser().absolute()
    count = len(hosts.load(path))
    if "nodes" in plan.model_fields_set and plan.nodes != count:
        raise BadInput(f"--nodes {plan.nodes}: {path} has {count} hosts; leave --nodes out")
    return make_plan.with_facts(plan, {"nodes": count, "hosts": str(path)})


def _external(plan: TestPlan) -> TestPlan:
    from harness.cluster import external

    foreign = sorted(set(plan.broker_config) - set(external.GUARANTEE_SETTINGS))
    if foreign:
        raise BadInput(f"--broker-config {foreign[0]}: the brokers of an external cluster are not ours to set")
    found = external.find(plan.bootstrap, connecting(plan))
    return make_plan.with_facts(plan, {"nodes": max(1, len(found.brokers)), "broker_config": dict(found.settings)})


def run_name(plan: TestPlan) -> str:
    """A run's name, and so its topics': its faults, or its workload.

    Told from everybody else's where others use the cluster too. A rule that is written out is no name.
    """
    faults = [f"{fault.partition(':')[0]}:rule" if "=" in fault else fault for fault in plan.nemesis]
    parts = [fault.replace(":", "-") for fault in faults] + (["schedule"] if plan.schedule else [])
    name = "-".join(parts) or plan.scenario or plan.workload
    return f"{name}-{secrets.token_hex(3)}" if plan.cluster == "external" else name


def topic_config(plan: TestPlan) -> Mapping[str, str]:
    """Settings of the run's topics: what a cluster of its own would have for all."""
    return {"min.insync.replicas": str(derived.min_isr(plan))} if derived.is_attached(plan) else {}


def check_allowed(plan: TestPlan, call: Call) -> None:
    """Before the load: whether an external cluster lets the run do what it must. Raises BadInput."""
    if plan.cluster != "external":
        return
    missing = call("forbidden", 3 * ALLOWED_S + 5.0, topic=f"{plan.run}-0", timeout_s=ALLOWED_S)
    if missing:
        raise BadInput(f"--bootstrap {plan.bootstrap}: no permission: {', '.join(missing)}; allow it")


def remove_left(cluster: Cluster, call: Call) -> None:
    """Before the load: delete the topics that killed runs have left on a named cluster."""
    if isinstance(cluster, NamedCluster) and cluster.left_runs:
        gone = call("delete_runs", 2 * DELETE_S + 10.0, runs=cluster.left_runs, timeout_s=DELETE_S)
        log.info("deleted %d topics of earlier runs", len(gone))
        cluster.forget(cluster.left_runs)


def remove_topics(plan: TestPlan, cluster: Cluster, call: Call, say: Callable[[str], None]) -> None:
    """After the run: delete its topics and its group, unless it is to leave them."""
    if not derived.is_attached(plan):
        return
    if plan.keep_topics:
        say(f"the topics {plan.run}-* are left, with --keep-topics")
        _forget(cluster, plan.run)
        return
    try:
        gone = call("delete_runs", 2 * DELETE_S + 10.0, runs=[plan.run], timeout_s=DELETE_S)
        log.info("deleted %d topics", len(gone))
        _forget(cluster, plan.run)
    except ClusterTrouble as error:
        log.error("topics were not deleted: %s", error)
        say(f"the topics {plan.run}-* are left on the cluster ({error}): delete them")


def _forget(cluster: Cluster, run: str) -> None:
    """A named cluster need not remember the run's topics."""
    if isinstance(cluster, NamedCluster):
        cluster.forget([run])
