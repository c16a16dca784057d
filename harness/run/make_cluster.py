"""Makes the cluster of a plan, with the capabilities that the plan's faults need, or says why this is impossible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.cluster import table
from harness.cluster.distribution import versions
from harness.cluster.local import dynamic_quorum
from harness.cluster.persistent import named_cluster
from harness.cluster.spec import NOBODY, ClusterSpec, Proxied
from harness.model.capabilities import Clocks, Cluster, Disks, LogDirs, Network, SlowDisks, Voters, Wire, offers
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, upgrade
from harness.plan.resolve import ResolvedPlan, resolve
from harness.plan.test_plan import TestPlan
from harness.run import attached_cluster
from harness.yaml_data import Where
from workloads.log_model.draw_broker_actions import wants_disks

Say = Callable[[str], None]


def make(plan: TestPlan, work: Path, say: Say, needed: frozenset[type] = frozenset()) -> Cluster:
    """Returns the cluster of a plan, not started yet. Raises Missing, and BadInput if secrets cannot be read.

    needed  capabilities for which the cluster must be prepared when it starts
    """
    if plan.cluster_name:
        return named_cluster.attach(plan.cluster_name, plan.cluster, plan.run)
    spec = spec_of(plan, work, say, needed | by_load(plan))
    return table.make(plan.cluster, replace(spec, connection=attached_cluster.connecting(plan)))


def spec_of(
    plan: TestPlan, work: Path = Path(), say: Say = print, needed: frozenset[type] = frozenset()
) -> ClusterSpec:
    """Returns the specification of the plan's cluster, without connection properties, which may be secret."""
    return ClusterSpec(
        run=plan.run,
        work_dir=work,
        say=say,
        needed=needed,
        nodes=plan.nodes,
        kafka_version=plan.kafka_version,
        upgrade_to=plan.upgrade_to,
        migrates=upgrade.migrates(plan),
        broker_config=plan.broker_config,
        min_insync_replicas=derived.min_isr(plan),
        replication=derived.replication_factor(plan),
        partitions_per_topic=derived.partitions_of_new_topic(plan),
        metadata=plan.metadata,
        controllers=plan.controllers,
        log_dirs=max(plan.log_dirs, 2) if LogDirs in needed else plan.log_dirs,
        racks=plan.racks,
        network=plan.network,
        outside=plan.outside,
        proxy=_proxied(plan, needed),
        tiered=plan.tiered,
        system=plan.system,
        image=plan.image,
        hosts=plan.hosts,
        bootstrap=plan.bootstrap,
    )


def by_load(plan: TestPlan) -> frozenset[type]:
    """Returns the capabilities that the plan's workload needs, in addition to those that faults need."""
    return frozenset({Disks} if plan.workload == "log-model" and wants_disks(plan.weights) else ())


# Capabilities that a cluster has only if it was started with them.
AT_START: Final = frozenset({Disks, SlowDisks, Clocks, LogDirs, Voters, Wire})


def prepared(started: ResolvedPlan) -> frozenset[type]:
    """Returns the capabilities for which a cluster that was started with this plan is prepared.

    These are the capabilities that the plan's faults need, `Wire` if requests go through the wire proxy, and `LogDirs`
    if brokers have several log directories.
    """
    needed = started.needed | (frozenset({LogDirs}) if started.plan.log_dirs > 1 else frozenset())
    return needed | {Wire} if _proxied(started.plan, needed) != NOBODY else needed


def lacking(wanted: ResolvedPlan, started: ResolvedPlan) -> frozenset[type]:
    """Returns the capabilities that the faults of `wanted` need, but a cluster started with plan `started` lacks."""
    return (wanted.needed & AT_START) - prepared(started)


def resolved(plan: TestPlan, where: Where | None = None) -> ResolvedPlan:
    """Resolves a plan for the servers that its cluster has or will have: see `resolve`."""
    return resolve(plan, server_names(plan), where)


def _proxied(plan: TestPlan, needed: frozenset[type]) -> Proxied:
    """Returns whose requests go through the wire proxy: a value of the option --proxy other than auto."""
    if plan.proxy != "auto":
        return plan.proxy
    return "clients" if Wire in needed else NOBODY


def server_names(plan: TestPlan) -> list[str]:
    """Returns the names of the servers that the plan's faults can refer to."""
    return table.server_names(plan.cluster, spec_of(plan))


def refusals(plan: TestPlan, needed: frozenset[type]) -> dict[type, str]:
    """Returns capability -> reason, for each needed capability that the plan's cluster cannot have on this machine."""
    # Without namespaces the local cluster does not have Network at all, so they need not be probed again.
    unsure = needed - {Network} if plan.cluster == "local" else needed
    refused = table.reasons(plan.cluster, unsure)
    if Voters in needed and (why := _fixed_voters(plan)):
        refused[Voters] = why
    if plan.cluster_name:
        unprepared = (needed & AT_START) - prepared(resolved(attached_cluster.plan_of(plan.cluster_name)))
        again = f"harness cluster down {plan.cluster_name}, then harness cluster up with --nemesis and these faults"
        refused |= dict.fromkeys(
            unprepared, f"the cluster {plan.cluster_name} was started without this capability: {again}"
        )
    return refused


def _fixed_voters(plan: TestPlan) -> str:
    """Returns why the voters of the plan's metadata quorum cannot be changed; "" if they can."""
    if not plan.controllers:
        return "only dedicated controllers can be added to or removed from the quorum; use --controllers 3"
    if versions.parse_version(versions.resolve(plan.kafka_version)) < dynamic_quorum.SINCE:
        return f"Kafka {plan.kafka_version} has a fixed set of voters; use --kafka-version 3.9 or later"
    return ""


def refuse_load(plan: TestPlan, cluster: Cluster) -> None:
    """Raises BadInput if the workload needs a capability that the cluster or this machine does not have."""
    needed = by_load(plan)
    refused = refusals(plan, needed)
    for need in needed:
        if refused.get(need) or not offers(cluster, need):
            reason = refused.get(need) or "this cluster has none; use --cluster local with network namespaces"
            raise BadInput(f"--weights {plan.weights}: power needs a separate disk per broker: {reason}")


def cannot(plan: TestPlan) -> str:
    """Returns the rest of the message "FAULT needs CAPABILITY, which ..." for the plan's kind of cluster."""
    return table.CLUSTERS[plan.cluster].refusal
