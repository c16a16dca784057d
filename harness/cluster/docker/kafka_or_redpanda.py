"""The cluster in containers that a spec asks for: Kafka's brokers, or Redpanda's."""

from __future__ import annotations

from harness.cluster.docker import engine, network_and_containers, redpanda
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.docker.redpanda_cluster import RedpandaCluster
from harness.cluster.spec import ClusterSpec


def make(spec: ClusterSpec) -> DockerCluster:
    """Three brokers in containers, for a run; nothing is started.

    Raises BadInput (settings), Missing (engine, image, memory, disk).
    """
    client = engine.connect()
    if spec.system == "redpanda":
        image = engine.fetched(client, spec.image or redpanda.IMAGE)
        engine.check_room(client, len(network_and_containers.NODES))
        return RedpandaCluster(network_and_containers.redpanda_brokers(spec, image))
    image = engine.image(client, spec.image, spec.kafka_version)
    engine.check_room(client, len(network_and_containers.NODES))
    return DockerCluster(network_and_containers.kafka(spec, image))
