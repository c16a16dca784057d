"""Traffic of confluent-kafka: python wire_client_confluent.py BOOTSTRAP; prints how many records it read."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 100


def main(bootstrap: str) -> None:
    common = {"bootstrap.servers": bootstrap}
    admin = AdminClient(common)
    admin.create_topics([NewTopic("confluent", 2, 3)])["confluent"].result(20)
    producer = Producer({**common, "transactional.id": "confluent"})
    producer.init_transactions(20)
    for n in range(RECORDS):
        if n % 10 == 0:
            producer.begin_transaction()
        producer.produce("confluent", b"x" * 1000, partition=n % 2)
        if n % 10 == 9:
            producer.commit_transaction(20)
    careless = Producer({**common, "acks": 0})
    for n in range(RECORDS):
        careless.produce("confluent", b"y" * 1000, partition=n % 2)
    careless.flush(20)
    consumer = Consumer({**common, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    read = 0
    for _ in range(300):
        read += sum(not message.error() for message in consumer.consume(100, 0.1))
        if read >= 2 * RECORDS:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    print(f"read {read}")


if __name__ == "__main__":
    main(*sys.argv[1:])
