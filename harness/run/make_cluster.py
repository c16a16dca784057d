"""From a plan to its cluster: which one, what faults need of it, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from harness.cluster.local.unsupported import reasons
from harness.model.capabilities import Clocks, Cluster, Disks, Network, SlowDisks, Wire
from harness.model.errors import BadInput
from harness.plan import derived
from harness.plan.resolve import ResolvedPlan, resolve
from harness.plan.test_plan import TestPlan
from harness.run import attached
from harness.yaml_data import Where
from workloads.log_model.broker_actions import wants_disks

Say = Callable[[str], None]


def make(plan: TestPlan, work: Path, say: Say, needed: frozenset[type] = frozenset()) -> Cluster:
    """The cluster that a plan names, with what faults need; nothing is started. Raises Missing."""
    needed |= by_load(plan)
    if plan.cluster_name:
        from harness.cluster.persistent import client

        return client.attach(plan.cluster_name, plan.cluster, plan.run)
    if plan.cluster == "mock":
        from harness.cluster.mock import MockCluster

        return MockCluster(plan.nodes, work)
    if plan.cluster == "sim":
        from harness.cluster.sim import SimCluster

        return SimCluster(work)
    if plan.cluster == "docker":
        return _docker_cluster(plan, work)
    if plan.cluster == "ssh":
        return _ssh_cluster(plan, work, needed)
    if plan.cluster == "external":
        return _external_cluster(plan, work)
    from harness.cluster.distribution import tiered_storage
    from harness.cluster.local import capacity, namespaced

    capacity.require(len(server_names(plan)), work)
    config = {"min.insync.replicas": str(derived.min_isr(plan)), **plan.broker_config}
    if plan.tiered:
        jar = tiered_storage.jar(plan.kafka_version, say)
        config |= tiered_storage.settings(jar, tiered_storage.folder(work), plan.nodes)
    return namespaced.make(
        plan.nodes, plan.kafka_version, config, work, plan.network,
        outside=plan.outside, notice=say, disks=bool(needed & {Disks, SlowDisks}), clocks=Clocks in needed,
        metadata=derived.metadata_mode(plan), controllers=plan.controllers, proxy=_proxied(plan, needed),
        log_dirs=plan.log_dirs,
    )  # fmt: skip


def by_load(plan: TestPlan) -> frozenset[type]:
    """What a plan's workload needs of the cluster by itself."""
    return frozenset({Disks} if plan.workload == "log-model" and wants_disks(plan.weights) else ())


# What a cluster has only if it was started with it.
AT_START: Final = frozenset({Disks, SlowDisks, Clocks, Wire})


def prepared(started: ResolvedPlan) -> frozenset[type]:
    """What the faults of a plan need of a cluster, and its options give."""
    needed = started.needed
    return needed | {Wire} if _proxied(started.plan, needed) != "nobody" else needed


def lacking(wanted: ResolvedPlan, started: ResolvedPlan) -> frozenset[type]:
    """What the faults of a plan, and of its schedule, need that a cluster was not started with."""
    return (wanted.needed & AT_START) - prepared(started)


def resolved(plan: TestPlan, where: Where | None = None) -> ResolvedPlan:
    """What a plan stands for, on the servers that its cluster has or will have. `where`: see `resolve`."""
    return resolve(plan, server_names(plan), where)


def _proxied(plan: TestPlan, needed: frozenset[type]) -> Literal["nobody", "clients", "everybody"]:
    """Whose requests are to pass a wire proxy."""
    if plan.proxy != "auto":
        return plan.proxy
    return "clients" if Wire in needed else "nobody"


def server_names(plan: TestPlan) -> list[str]:
    """The servers that a plan's faults may name."""
    from harness.cluster.local import layout

    brokers = [f"n{n + 1}" for n in range(plan.nodes)]
    if plan.cluster == "ssh":
        from harness.cluster.ssh import hosts as ssh_hosts

        return [host.name for host in ssh_hosts.load(Path(plan.hosts))]
    if plan.cluster != "local":
        return brokers
    return brokers + layout.beside(plan.nodes, plan.controllers, derived.metadata_mode(plan))


def _docker_cluster(plan: TestPlan, work: Path) -> Cluster:
    from harness.cluster.docker import cluster as docker_cluster
    from harness.cluster.docker import redpanda_cluster

    if plan.system == "redpanda":
        return redpanda_cluster.make(plan.image, plan.run, work, plan.broker_config)
    config = {"min.insync.replicas": str(derived.min_isr(plan)), **plan.broker_config}
    return docker_cluster.make(plan.image, plan.kafka_version, plan.run, work, config)


def _ssh_cluster(plan: TestPlan, work: Path, needed: frozenset[type]) -> Cluster:
    from harness.cluster.ssh import cluster as ssh_cluster
    from harness.cluster.ssh import hosts as ssh_hosts

    config = {"min.insync.replicas": str(derived.min_isr(plan)), **plan.broker_config}
    hosts = ssh_hosts.load(Path(plan.hosts))
    return ssh_cluster.SshCluster(plan.run, hosts, plan.kafka_version, config, work, Network in needed)


def _external_cluster(plan: TestPlan, work: Path) -> Cluster:
    from harness.cluster import external

    connection = attached.connecting(plan)
    brokers = external.find(plan.bootstrap, connection).brokers
    cluster = external.ExternalCluster(plan.bootstrap, connection, brokers, work)
    config = attached.topic_config(plan)
    cluster.may_make(f"{plan.run}-0", plan.partitions_per_topic, derived.replication_factor(plan), config)
    return cluster


def refusals(plan: TestPlan, needed: frozenset[type]) -> dict[type, str]:
    """What the plan's cluster could do and this machine does not let it do: the reasons, empty for none."""
    refused = reasons(needed)
    if plan.cluster_name:
        lacking = (needed & AT_START) - prepared(resolved(attached.plan_of(plan.cluster_name)))
        again = f"harness cluster down {plan.cluster_name}, then up with --nemesis and these faults"
        refused |= dict.fromkeys(lacking, f"the cluster {plan.cluster_name} was started without: {again}")
    if plan.cluster == "docker" and Network in needed:
        from harness.cluster.docker import network

        refused[Network] = network.why_not()
    return refused


def refuse_load(plan: TestPlan, cluster: Cluster) -> None:
    """Raises BadInput where the workload needs what the cluster, or this machine, does not offer."""
    for need, why in refusals(plan, by_load(plan)).items():
        if why or not isinstance(cluster, need):
            told = why or "the cluster has none; use --cluster local with network namespaces"
            raise BadInput(f"--weights {plan.weights}: power needs disks of the brokers' own: {told}")


def cannot(plan: TestPlan) -> str:
    """How a refusal describes the cluster."""
    if plan.cluster == "external":
        return (
            "a cluster that others run does not offer: only clients can be broken there "
            "(kill:client, pause:client); use --cluster local"
        )
    if plan.cluster == "docker":
        return "containers do not offer; use --cluster local"
    if plan.cluster == "ssh":
        return "brokers on other hosts do not offer; use --cluster local"
    if plan.cluster == "sim":
        return "a simulated log does not have; use --cluster local"
    if plan.cluster == "mock":
        return "librdkafka's mock cluster does not offer; use --cluster local"
    return (
        "this machine's namespaces would give, and they are refused or switched off; "
        "`harness doctor` says why and what to do"
    )
