"""A transaction that is committed while one of its partitions has no leader."""

import time

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from local_kafka import Cluster, wait_for

TOPIC = "t"
# When one broker is down, the other one is the transaction coordinator.
CONFIG = {"transaction.state.log.replication.factor": 2}
PATIENCE_S = 20


def leader(admin):
    """Returns the leader of the partition; None as long as the broker does not know the partition."""
    found = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.get(0)
    return found.leader if found else None


def commit(settings, transactional_id, value, before_commit=lambda: None):
    producer = Producer({**settings, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    errors = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    if errors != [None]:
        raise RuntimeError(f"{value}: {errors}")
    before_commit()
    producer.commit_transaction(60)


def read_committed(settings, count):
    """Returns the values that a consumer reads, at most `count`."""
    consumer = Consumer({**settings, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values, end = [], time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            values.append(message.value().decode())
    consumer.close()
    return values


def latest(admin, isolation_level):
    partition = TopicPartition(TOPIC, 0)
    return (
        admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation_level)[partition]
        .result(30)
        .offset
    )


def main(kafka):
    with Cluster(kafka, brokers=2, config=CONFIG) as cluster:
        second = cluster.brokers[1]
        admin = cluster.create_topic(TOPIC, (2,))
        wait_for(lambda: leader(admin) == 2, 30, "the partition has a leader")

        def kill_leader():
            second.kill()
            wait_for(lambda: leader(admin) == -1, 60, "the partition has no leader")

        commit(cluster.clients, "first", "a", kill_leader)
        second.start()
        wait_for(lambda: leader(admin) == 2, 60, "the partition has its leader again")
        commit(cluster.clients, "second", "b")
        values = read_committed(cluster.clients, 2)
        stable, end = (
            latest(admin, level) for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        skipped = cluster.brokers[0].log.read_text().count("can be skipped")
    found = f"{values} within {PATIENCE_S} s, last stable offset {stable} of {end}; markers skipped: {skipped}"
    return "both transactions were committed, so a consumer reads ['a', 'b']", found, values != ["a", "b"]
