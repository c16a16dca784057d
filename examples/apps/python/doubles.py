"""Makes an invoice of every order. It commits after it has produced, so an instance that is killed makes doubles."""

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
producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 200})
consumer.subscribe([orders])
print("subscribed", flush=True)

try:
    while not stopping:
        messages = [message for message in consumer.consume(500, 0.5) if message.error() is None]
        for message in messages:
            producer.produce(invoices, message.value(), message.key())
        if producer.flush(30):
            raise SystemExit("some invoices were not acknowledged: nothing is committed")
        if messages:
            consumer.commit(asynchronous=False)
finally:
    consumer.close()
