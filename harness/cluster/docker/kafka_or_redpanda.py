"""Creates the Docker cluster that a spec describes, with Kafka's brokers or Redpanda's."""

from __future__ import annotations

from harness.cluster.docker import engine_and_images, network_and_containers, redpanda
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.docker.redpanda_cluster import RedpandaCluster
from harness.cluster.spec import ClusterSpec


def make(spec: ClusterSpec) -> DockerCluster:
    """Returns a cluster of three brokers in containers, which has not been started.

    Raises BadInput (settings), Missing (engine, image, memory, disk).
    """
    client = engine_and_images.connect()
    if spec.system == "redpanda":
        image = engine_and_images.fetched(client, spec.image or redpanda.IMAGE)
        engine_and_images.check_room(client, len(network_and_containers.NODES))
        return RedpandaCluster(network_and_containers.redpanda_brokers(spec, image))
    image = engine_and_images.image(client, spec.image, spec.kafka_version)
    engine_and_images.check_room(client, len(network_and_containers.NODES))
    return DockerCluster(network_and_containers.kafka(spec, image))
