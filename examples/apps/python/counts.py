"""Makes an invoice of every order, with the number of the customer's orders so far. It loses counts.

Invoices and offsets are committed in one transaction, but the counts are kept in memory only: another process, or
another instance that gets the partition, starts from 0. After an error it aborts the transaction and ends; whoever
runs it starts it again.
"""

import json
import signal
import sys
from collections import Counter

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

bootstrap, group, orders, invoices, instance = sys.argv[1:]
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "isolation.level": "read_committed",
    }
)
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        "transactional.id": f"{group}-{instance}",  # the next process of the instance fences this one
        "transaction.timeout.ms": 10000,
    }
)
counts: Counter[int] = Counter()
try:
    producer.init_transactions(30)
    consumer.subscribe([orders])
    print("subscribed", flush=True)
    while not stopping:
        messages = [message for message in consumer.consume(500, 0.5) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            offsets = {}
            for message in messages:
                order = json.loads(message.value())
                counts[order["customer"]] += 1
                invoice = {**order, "orders": counts[order["customer"]]}
                producer.produce(invoices, json.dumps(invoice), message.key())
                offsets[message.topic(), message.partition()] = message.offset() + 1
            positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
        except KafkaException as error:
            print(f"aborting: {error}", flush=True)
            if not error.args[0].fatal():
                producer.abort_transaction(30)
            sys.exit(1)
finally:
    consumer.close()
