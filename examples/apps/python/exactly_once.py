"""Makes an invoice of every order. Invoices and offsets are committed in one transaction (KIP-98, KIP-447).

After an error it aborts the transaction and ends; whoever runs it starts it again.
"""

import signal
import sys

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
                producer.produce(invoices, message.value(), message.key())
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
