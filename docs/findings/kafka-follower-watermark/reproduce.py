"""Consumers in the rack of a follower that has truncated its log (KIP-392)."""

import time

from local_kafka import Cluster, read, send, wait_for

TOPIC = "t"
CONFIG = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # The restarted broker must not know the high watermark. By default, it is written every 5 s.
    "replica.high.watermark.checkpoint.interval.ms": 60_000,
}
PATIENCE_S = 15


def partition(admin):
    """Returns (leader, in-sync replicas) of the partition; (None, []) as long as the broker does not know it."""
    found = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.get(0)
    return (found.leader, sorted(found.isrs)) if found else (None, [])


def main(kafka):
    with Cluster(kafka, brokers=3, config=CONFIG) as cluster:
        _, second, third = cluster.brokers
        admin = cluster.create_topic(TOPIC, (2, 3), min_insync_replicas=1)
        wait_for(lambda: partition(admin)[1] == [2, 3], 30, "both replicas are in sync")
        send(cluster.clients, TOPIC, "a")
        send(cluster.clients, TOPIC, "b")
        third.pause()
        time.sleep(1)  # the fetch that is waiting at the leader is answered
        send(cluster.clients, TOPIC, "c", acks=1)
        second.kill()
        third.resume()
        wait_for(lambda: partition(admin)[0] == 3, 60, "the follower becomes the leader")
        second.start()
        wait_for(lambda: partition(admin)[1] == [2, 3], 60, "the former leader is in sync")
        before = [read(cluster.clients, TOPIC, 2, PATIENCE_S, **{"client.rack": rack}) for rack in ("rack3", "rack2")]
        send(cluster.clients, TOPIC, "d")
        after = read(cluster.clients, TOPIC, 3, PATIENCE_S, **{"client.rack": "rack2"})
        if before[0] != ["a", "b"]:
            raise RuntimeError(f"a consumer in the leader's rack read {before[0]}")
    found = f"{before[1]} within {PATIENCE_S} s; once another record has been written, {after}"
    return f"a consumer in the rack of the follower reads {before[0]}", found, before[1] != before[0]
