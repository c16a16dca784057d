"""Makes an invoice of every order. It has a common mistake: it commits before it has produced."""

import signal
import sys

from confluent_kafka import Consumer, Producer

bootstrap, group, orders, invoices = sys.argv[1:]
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000})
consumer.subscribe([orders])
print("subscribed", flush=True)

try:
    while not stopping:
        messages = [message for message in consumer.consume(500, 0.5) if message.error() is None]
        if not messages:
            continue
        consumer.commit(asynchronous=False)  # too early: the invoices are not written yet
        for message in messages:
            producer.produce(invoices, message.value(), message.key())
            producer.poll(0)
    producer.flush(5)
finally:
    consumer.close()
