"""Heals a cluster after any faults: undoes the effects of the faults, and starts stopped servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.model.capabilities import (
    Clocks,
    Cluster,
    Disks,
    Links,
    LogDirs,
    MetadataServers,
    Network,
    Processes,
    SlowDisks,
    offers,
    servers,
)
from harness.model.errors_and_exit_codes import ClusterTrouble, HarnessError
from harness.protocol.brokers_metadata_views import newest
from harness.run.roles import Viewed

HEALTHY_S: Final = 90.0
PERIOD_S: Final = 0.2


def mend(cluster: Cluster, prepared: frozenset[type]) -> list[str]:
    """Undoes every fault, and starts stopped servers; returns the names of the servers that it started.

    prepared  the capabilities (such as Clocks, Disks) for which the cluster was prepared when it was created

    Raises ClusterTrouble.
    """
    if offers(cluster, SlowDisks):
        cluster.unstall()
    if offers(cluster, Processes):
        for name in servers(cluster):
            cluster.resume(name)
    if offers(cluster, Network):
        cluster.heal()
    if offers(cluster, Links):
        cluster.restore()
    if offers(cluster, Clocks) and Clocks in prepared:
        for name in cluster.nodes:
            cluster.set_clock(name, 0.0)
    if offers(cluster, Disks) and Disks in prepared:
        cluster.free(cluster.nodes)
    if offers(cluster, LogDirs) and LogDirs in prepared:
        for name in cluster.nodes:
            cluster.mend_log_dir(name)
    if not offers(cluster, Processes):
        return []
    stopped = [name for name in servers(cluster) if not cluster.running(name)]
    for name in stopped:
        cluster.start(name)
    return stopped


def trouble(cluster: Cluster) -> str:
    """Returns what is wrong with the cluster; "" if the cluster is healthy.

    In a healthy cluster all servers answer, all brokers are registered, and each partition has a leader and all its
    replicas in sync.
    """
    if offers(cluster, MetadataServers) and (silent := cluster.silent()):
        return f"{', '.join(silent)} do not answer"
    if not offers(cluster, Viewed):
        return ""
    views = cluster.views()
    if len(views) < len(cluster.nodes):
        return f"only {len(views)} of {len(cluster.nodes)} brokers answer"
    now = newest(views)
    if len(now.brokers) < len(cluster.nodes):
        return f"only {len(now.brokers)} of {len(cluster.nodes)} brokers are registered"
    leaderless = sum(1 for partition in now.partitions.values() if partition.leader is None)
    if leaderless:
        return f"{leaderless} of {len(now.partitions)} partitions have no leader"
    behind = sum(1 for partition in now.partitions.values() if len(partition.isr) < partition.replicas)
    return f"{behind} of {len(now.partitions)} partitions have replicas out of sync" if behind else ""


def make_healthy(cluster: Cluster, prepared: frozenset[type], say: Callable[[str], None]) -> None:
    """Heals the cluster, and waits until it is healthy. Raises ClusterTrouble if that takes too long."""
    started = mend(cluster, prepared)
    if started:
        say(f"the cluster was left broken; servers that were not running have been started: {', '.join(started)}")
    deadline = time.monotonic() + HEALTHY_S
    announced = False
    while wrong := _trouble(cluster):
        if time.monotonic() > deadline:
            raise ClusterTrouble(f"the cluster did not heal within {HEALTHY_S:.0f} s: {wrong}")
        if not announced:
            say(f"healing: {wrong}")
            announced = True
        time.sleep(PERIOD_S)


def _trouble(cluster: Cluster) -> str:
    try:
        return trouble(cluster)
    except HarnessError as error:
        return str(error)
