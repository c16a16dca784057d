"""A change of min.insync.replicas while a partition has no leader."""

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from local_kafka import Cluster, wait_for

TOPIC = "t"
PATIENCE_S = 30


def leader(admin):
    """Returns the leader of the partition; None as long as the broker does not know the partition."""
    found = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.get(0)
    return found.leader if found else None


def set_min_isr(admin, value):
    entry = ConfigEntry("min.insync.replicas", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def send(settings, value):
    producer = Producer({**settings, "acks": "all", "linger.ms": 0})
    producer.produce(TOPIC, value, partition=0)
    producer.flush(30)


def main(kafka):
    with Cluster(kafka, brokers=3) as cluster:
        _, second, third = cluster.brokers
        admin = cluster.create_topic(TOPIC, (2, 3), min_insync_replicas=2)
        wait_for(lambda: leader(admin) == 2, 30, "the partition has a leader")
        send(cluster.clients, b"a")
        third.stop()
        second.stop()
        wait_for(lambda: leader(admin) == -1, 60, "the partition has no leader")
        set_min_isr(admin, "1")
        for broker in (second, third):
            broker.start()
        wait_for(lambda: {2, 3} <= admin.list_topics(timeout=10).brokers.keys(), 60, "the brokers register")
        end = time.monotonic() + PATIENCE_S
        while (now := leader(admin)) == -1 and time.monotonic() < end:
            time.sleep(0.5)
    found = "no leader" if now == -1 else f"leader {now}"
    return "both replicas are back, so the partition has a leader", f"{found} within {PATIENCE_S} s", now == -1
