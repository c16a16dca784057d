"""Everything that a cluster is made from, whatever its kind: see `harness.cluster.table`."""

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
    """What a cluster is made from; a kind of cluster takes what means something to it.

    run            the run that it is for, in names of what is made
    work_dir       must not hold a cluster yet; takes data, logs and configuration until `down`
    say            hears what is worth knowing while the cluster is made
    needed         capabilities that faults need; Disks, SlowDisks, Clocks and Network take preparation
    broker_config  settings of the brokers; of Redpanda, cluster properties
    min_insync_replicas, replication, partitions_per_topic  of the run's topics; None: the brokers' default
    metadata       None: what suits the version
    controllers    nodes that only control; 0: the first brokers do
    log_dirs       folders of each broker for its logs: data, data2, ... (files are damaged in the first)
    network        whether hosts get network namespaces
    outside        brokers get a second listener each, forwarded from a port of 127.0.0.1
    proxy          whose requests pass through a wire proxy: NOBODY's, those of clients, or EVERYBODY's
    tiered         the brokers have a remote tier
    image          of containers; empty: that of the version
    hosts          path of the file that describes them
    bootstrap, connection  of brokers that are there: their addresses, and how clients connect (secrets among it)
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
        """Where the metadata is."""
        return self.metadata or versions.default_metadata(self.kafka_version)

    @property
    def topic_config(self) -> dict[str, str]:
        """What the run's topics are to have."""
        return {} if self.min_insync_replicas is None else {"min.insync.replicas": str(self.min_insync_replicas)}

    @property
    def kafka_config(self) -> dict[str, str]:
        """Settings of Kafka's brokers, those for topics among them."""
        return {**self.topic_config, **self.broker_config}
