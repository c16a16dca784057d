"""The parameters from which a cluster of any kind is created: see `harness.cluster.table`."""

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
    """Parameters of a cluster; each kind of cluster uses those that apply to it.

    run            the run that the cluster is for; used in names of topics and containers
    work_dir       must not contain a cluster yet; holds data, logs and configuration until `down`
    say            receives messages for the user while the cluster is created
    needed         capabilities that faults need; Disks, SlowDisks, Clocks and Network require preparation
    broker_config  settings of the brokers; for Redpanda, cluster properties
    min_insync_replicas, replication, partitions_per_topic  of the run's topics; None: the brokers' default
    metadata       None: the version's default
    controllers    number of dedicated controllers; 0: the first brokers are controllers
    log_dirs       log directories of each broker: data, data2, ... (file faults damage the first)
    network        whether hosts get network namespaces
    outside        whether brokers get a second listener each, forwarded from a port of 127.0.0.1
    proxy          whose requests pass through a wire proxy: NOBODY's, those of clients, or EVERYBODY's
    tiered         whether the brokers have tiered storage
    image          of containers; empty: the version's image
    hosts          path of the file that describes the hosts
    bootstrap, connection  of an external cluster: its addresses, and how clients connect (including secrets)
    """

    run: str = ""
    work_dir: Path = Path("cluster")
    say: Callable[[str], None] = print
    needed: frozenset[type] = frozenset()
    nodes: int = 3
    kafka_version: str = versions.DEFAULT
    broker_config: Mapping[str, str] = field(default_factory=dict)
    min_insync_replicas: int | None = None
    replication: int = 3
    partitions_per_topic: int = 4
    metadata: Metadata | None = None
    controllers: int = 0
    log_dirs: int = 1
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
        """Where the metadata is stored."""
        return self.metadata or versions.default_metadata(self.kafka_version)

    @property
    def topic_config(self) -> dict[str, str]:
        """Configuration of the run's topics."""
        return {} if self.min_insync_replicas is None else {"min.insync.replicas": str(self.min_insync_replicas)}

    @property
    def kafka_config(self) -> dict[str, str]:
        """Settings of the brokers, including the defaults for topics."""
        return {**self.topic_config, **self.broker_config}
