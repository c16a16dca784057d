"""The parameters for creating a cluster of any kind: see `harness.cluster.table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from harness.cluster.distribution import versions
from harness.cluster.distribution.versions import Metadata

NetworkMode = Literal["auto", "namespaces", "loopback"]
Proxied = Literal["nobody", "clients", "everybody"]
NOBODY: Final = "nobody"
EVERYBODY: Final = "everybody"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Parameters of a cluster. Each kind of cluster ignores the parameters that do not apply to it.

    run            name of the run, used in the names of topics and containers
    work_dir       folder of the cluster's data, logs and configuration until `down`; must not contain a cluster yet
    say            receives messages for the user while the cluster is created
    needed         capabilities that the run's faults need; the cluster prepares some of them (Disks, SlowDisks, Clocks,
                   Network) when it starts
    upgrade_to     the version with which servers can be restarted; empty: only `kafka_version`
    migrates       whether the cluster can migrate from ZooKeeper to KRaft; its controllers are then started later
    broker_config  settings of the brokers; for Redpanda, cluster properties
    min_insync_replicas   min.insync.replicas of the run's topics; None: the brokers' default
    replication           replication factor of the run's topics
    partitions_per_topic  number of partitions of each of the run's topics
    metadata       where brokers store metadata; None: the version's default
    controllers    number of dedicated controllers; 0: the first brokers are also controllers
    log_dirs       number of log directories of each broker: data, data2, ... (most disk and file faults affect data)
    racks          number of racks of the brokers, whose replicas serve the consumers of their rack; 0: no racks
    network        whether hosts get network namespaces: "auto", "namespaces" or "loopback"
    outside        whether each broker gets a second listener, at a port of 127.0.0.1, for programs on this machine
    proxy          whose requests pass through a wire proxy: "nobody", "clients" or "everybody"
    tiered         whether the brokers have tiered storage
    image          image of the containers; empty: the version's image
    hosts          path of the file that describes the hosts
    bootstrap      addresses of an external cluster
    connection     how clients connect to an external cluster (including secrets)
    """

    run: str = ""
    work_dir: Path = Path("cluster")
    say: Callable[[str], None] = print
    needed: frozenset[type] = frozenset()
    nodes: int = 3
    kafka_version: str = versions.DEFAULT
    upgrade_to: str = ""
    migrates: bool = False
    broker_config: Mapping[str, str] = field(default_factory=dict)
    min_insync_replicas: int | None = None
    replication: int = 3
    partitions_per_topic: int = 4
    metadata: Metadata | None = None
    controllers: int = 0
    log_dirs: int = 1
    racks: int = 0
    network: NetworkMode = "auto"
    outside: bool = False
    proxy: Proxied = NOBODY
    tiered: bool = False
    system: Literal["kafka", "redpanda"] = "kafka"
    image: str = ""
    hosts: str = ""
    bootstrap: str = ""
    connection: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata_kept(self) -> Metadata:
        """Where the brokers store metadata: KRaft or ZooKeeper."""
        return self.metadata or versions.default_metadata(self.kafka_version)

    @property
    def topic_config(self) -> dict[str, str]:
        """Configuration of the run's topics."""
        return {} if self.min_insync_replicas is None else {"min.insync.replicas": str(self.min_insync_replicas)}

    @property
    def kafka_config(self) -> dict[str, str]:
        """Settings of the brokers, including default settings of topics."""
        return {**self.topic_config, **self.broker_config}
