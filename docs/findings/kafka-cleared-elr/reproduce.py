"""A change of min.insync.replicas while a partition has no leader."""

import time

from local_kafka import Cluster, leader, send, set_min_isr, wait_for

TOPIC = "t"
PATIENCE_S = 30


def main(kafka):
    with Cluster(kafka, brokers=3) as cluster:
        _, second, third = cluster.brokers
        admin = cluster.create_topic(TOPIC, (2, 3), min_insync_replicas=2)
        wait_for(lambda: leader(admin, TOPIC) == 2, 30, "the partition has a leader")
        send(cluster.clients, TOPIC, b"a")
        third.stop()
        second.stop()
        wait_for(lambda: leader(admin, TOPIC) == -1, 60, "the partition has no leader")
        set_min_isr(admin, TOPIC, "1")
        for broker in (second, third):
            broker.start()
        wait_for(lambda: {2, 3} <= admin.list_topics(timeout=10).brokers.keys(), 60, "the brokers register")
        end = time.monotonic() + PATIENCE_S
        while (now := leader(admin, TOPIC)) == -1 and time.monotonic() < end:
            time.sleep(0.5)
    found = "no leader" if now == -1 else f"leader {now}"
    return "both replicas are back, so the partition has a leader", f"{found} within {PATIENCE_S} s", now == -1
