"""Partitions are added to a topic while a consumer is in its assignment callback."""

import time

from confluent_kafka import Consumer
from confluent_kafka.admin import NewPartitions
from local_kafka import Cluster

TOPIC = "assignment"


def main(kafka):
    with Cluster(kafka) as cluster:
        admin = cluster.create_topic(TOPIC)
        events = []

        def on_assign(_, partitions):
            events.append(f"assigned {sorted(each.partition for each in partitions)}")
            if len(events) == 1:
                admin.create_partitions([NewPartitions(TOPIC, 2)])[TOPIC].result(10)
                time.sleep(3)  # until the consumer has refreshed the topic's metadata

        def on_revoke(_, partitions):
            events.append(f"revoked {sorted(each.partition for each in partitions)}")

        settings = {
            "group.id": "assignment",
            "partition.assignment.strategy": "range",
            "topic.metadata.refresh.interval.ms": 500,
        }
        consumer = Consumer({**cluster.clients, **settings})
        consumer.subscribe([TOPIC], on_assign=on_assign, on_revoke=on_revoke)
        end = time.monotonic() + 20
        while len(events) < 3 and time.monotonic() < end:
            consumer.poll(0.1)
        found = list(events)
        consumer.close()
    is_shown = len(found) > 1 and found[0].startswith("assigned") and found[1].startswith("assigned")
    return ("assigned [0], revoked [0], assigned [0, 1]", ", ".join(found), is_shown)
