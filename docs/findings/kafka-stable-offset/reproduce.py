"""The last stable offset after records were deleted up to the middle of a batch, while a transaction is open."""

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from local_kafka import Cluster, offset, wait_for

TOPIC = "stable-offset"


def main(kafka):
    with Cluster(kafka) as cluster:
        admin = cluster.create_topic(TOPIC)
        # Offset 0 belongs to a transaction that stays open; offsets 1 and 2 are one batch of an ordinary producer.
        transactional = Producer({**cluster.clients, "transactional.id": "open", "linger.ms": 0})
        transactional.init_transactions(30)
        transactional.begin_transaction()
        transactional.produce(TOPIC, b"transactional", partition=0)
        transactional.flush(10)
        ordinary = Producer({**cluster.clients, "linger.ms": 500})
        for value in (b"a", b"b"):
            ordinary.produce(TOPIC, value, partition=0)
        ordinary.flush(10)

        admin.delete_records([TopicPartition(TOPIC, 0, 2)])
        start = wait_for(lambda: offset(admin, TOPIC, spec=OffsetSpec.earliest()), 10, "the records are deleted")
        stable = offset(admin, TOPIC, IsolationLevel.READ_COMMITTED)
        end = offset(admin, TOPIC)
    return (
        "last stable offset 2, because the log starts at offset 2",
        f"start {start}, last stable offset {stable}, end {end}",
        stable < start,
    )
