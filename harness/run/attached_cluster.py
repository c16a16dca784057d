"""Attached clusters: clusters that exist before a run and stay up after it.

Such a cluster is external (started by somebody else) or named (started by `harness cluster up`). Before a run, facts
about the cluster, such as its number of nodes, are written into the plan. After the run, the run's topics are deleted.
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
from harness.plan.test_plan import OF_CLUSTER, TestPlan, option_name

DELETE_S: Final = 30.0
ALLOWED_S: Final = 15.0
Call = Callable[..., Any]
log = logging.getLogger("harness")


def connecting(plan: TestPlan) -> dict[str, str]:
    """Returns the connection settings of the clients, including secrets. Raises BadInput."""
    return connection.load(Path(plan.client_config)) if plan.client_config else {}


def settled(plan: TestPlan) -> TestPlan:
    """Returns the plan, completed with facts about its cluster, such as the number of nodes. Raises BadInput, Missing.

    Only attached clusters and clusters on the user's hosts have such facts. Plans for other clusters are not changed.
    """
    if plan.cluster_name:
        return _named(plan)
    if plan.cluster == "external":
        return _external(plan)
    if plan.cluster == "ssh":
        return _on_hosts(plan)
    return plan


def plan_of(name: str) -> TestPlan:
    """Returns the plan with which a named cluster was started. Raises BadInput if the cluster is not up."""
    return plan_file.load(client.folder(client.find(name).name) / client.PLAN)


def _named(plan: TestPlan) -> TestPlan:
    """Returns the plan, with the fields that its named cluster has had since its start, such as the number of nodes.

    Raises BadInput if the plan sets one of these fields to another value.
    """
    client.find(plan.cluster_name, plan.cluster)
    kept = plan_of(plan.cluster_name)
    for field in OF_CLUSTER:
        requested, kept_value = getattr(plan, field), getattr(kept, field)
        if field in plan.model_fields_set and requested != kept_value:
            raise BadInput(
                f"{option_name(field)} {requested}: the cluster {plan.cluster_name} was started with {kept_value}; "
                "omit the option, or start another cluster: harness cluster up NAME"
            )
    return make_plan.with_facts(plan, {field: getattr(kept, field) for field in OF_CLUSTER})


def _on_hosts(plan: TestPlan) -> TestPlan:
    """Returns the plan with the number of nodes set to the number of hosts in the hosts file.

    Raises BadInput if the plan sets another number of nodes.
    """
    from harness.cluster.ssh import hosts

    path = Path(plan.hosts).expanduser().absolute()
    count = len(hosts.load(path))
    if "nodes" in plan.model_fields_set and plan.nodes != count:
        raise BadInput(f"--nodes {plan.nodes}: {path} lists {count} hosts; omit --nodes")
    return make_plan.with_facts(plan, {"nodes": count, "hosts": str(path)})


def _external(plan: TestPlan) -> TestPlan:
    from harness.cluster import external

    foreign = sorted(set(plan.broker_config) - set(external.GUARANTEE_SETTINGS))
    if foreign:
        raise BadInput(
            f"--broker-config {foreign[0]}: a run cannot configure the brokers of an external cluster; omit the option"
        )
    found = external.find(plan.bootstrap, connecting(plan))
    return make_plan.with_facts(plan, {"nodes": max(1, len(found.brokers)), "broker_config": dict(found.settings)})


def run_name(plan: TestPlan) -> str:
    """Returns the name of a run. The names of its topics begin with it.

    The name consists of the names of the run's faults. Without faults, it is that of the scenario or the workload. Wire
    rules with arguments are shortened to `rule`. On an external cluster, which others may also use, a random suffix
    makes the name unique.
    """
    faults = [f"{fault.partition(':')[0]}:rule" if "=" in fault else fault for fault in plan.nemesis]
    parts = [fault.replace(":", "-") for fault in faults] + (["schedule"] if plan.schedule else [])
    name = "-".join(parts) or plan.scenario or plan.workload
    return f"{name}-{secrets.token_hex(3)}" if plan.cluster == "external" else name


def topic_config(plan: TestPlan) -> Mapping[str, str]:
    """Returns the settings with which the run must create its topics.

    Returns {} for a cluster that is started for the run, because its brokers have these settings as defaults.
    """
    return {"min.insync.replicas": str(derived.min_isr(plan))} if derived.is_attached(plan) else {}


def check_allowed(plan: TestPlan, call: Call) -> None:
    """Checks that the clients have the permissions that a run needs on an external cluster. Called before the load.

    Raises BadInput.
    """
    if plan.cluster != "external":
        return
    missing = call("forbidden", 3 * ALLOWED_S + 5.0, topic=f"{plan.run}-0", timeout_s=ALLOWED_S)
    if missing:
        raise BadInput(f"--bootstrap {plan.bootstrap}: missing permissions: {', '.join(missing)}; grant them")


def remove_left(cluster: Cluster, call: Call) -> None:
    """Deletes the topics that killed runs have left on a named cluster. Called before the load."""
    if isinstance(cluster, NamedCluster) and cluster.left_runs:
        deleted = call("delete_runs", 2 * DELETE_S + 10.0, runs=cluster.left_runs, timeout_s=DELETE_S)
        log.info("deleted %d topics of earlier runs", len(deleted))
        cluster.forget(cluster.left_runs)


def remove_topics(plan: TestPlan, cluster: Cluster, call: Call, say: Callable[[str], None]) -> None:
    """Deletes the run's topics, and with them its consumer group, from an attached cluster. Called after the run.

    Keeps them if --keep-topics is given.
    """
    if not derived.is_attached(plan):
        return
    if plan.keep_topics:
        say(f"the topics {plan.run}-* stay on the cluster, as --keep-topics is given")
        _forget(cluster, plan.run)
        return
    try:
        deleted = call("delete_runs", 2 * DELETE_S + 10.0, runs=[plan.run], timeout_s=DELETE_S)
        log.info("deleted %d topics", len(deleted))
        _forget(cluster, plan.run)
    except ClusterTrouble as error:
        log.error("topics were not deleted: %s", error)
        say(f"the topics {plan.run}-* could not be deleted ({error}) and are still on the cluster: delete them")


def _forget(cluster: Cluster, run: str) -> None:
    """Removes the run from the list of runs whose topics are still on a named cluster."""
    if isinstance(cluster, NamedCluster):
        cluster.forget([run])
