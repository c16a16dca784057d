"""A producer of kafka-python after a record that it gave up: python reproduce.py HOST:PORT"""

import os
import sys
import time

import kafka
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaTimeoutError

SERVERS = sys.argv[1]
TOPIC = f"kafka-python-producer-{time.time_ns()}"
DELETED = f"{TOPIC}-deleted"
PATIENCE_S = 20


def producer():
    return KafkaProducer(
        bootstrap_servers=SERVERS,
        acks="all",
        enable_idempotence=True,  # the default since 3.0.0
        allow_auto_create_topics=False,
        request_timeout_ms=1000,
        delivery_timeout_ms=3000,
    )


def sent(client, topic):
    """Sends a record. Returns its offset, or the error."""
    try:
        return client.send(topic, b"x", partition=0).get(timeout=PATIENCE_S).offset
    except KafkaTimeoutError as error:
        return error


def main():
    admin = KafkaAdminClient(bootstrap_servers=SERVERS)
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1) for name in (TOPIC, DELETED)])
    first, second = producer(), producer()
    before = [sent(first, TOPIC), sent(first, DELETED)]
    admin.delete_topics([DELETED])
    admin.close()
    given_up = sent(first, DELETED)
    if before != [0, 0] or not isinstance(given_up, KafkaTimeoutError):
        print(f"the first records: {before}; the record to the deleted topic: {given_up}", file=sys.stderr)
        sys.exit(2)
    after = sent(first, TOPIC)
    print(f"kafka-python {kafka.__version__}; a record to a topic that was deleted: {given_up}")
    print("expected: the next record of this producer, to another topic, is stored at offset 1")
    print(f"found:    {f'offset {after}' if isinstance(after, int) else f'after {PATIENCE_S} s: {after}'}")
    print(f"          a record of another producer: {sent(second, TOPIC)}")
    sys.stdout.flush()
    os._exit(1 if after == 1 else 0)  # the first producer could not be closed in an orderly way


main()
