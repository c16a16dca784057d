"""Makes an invoice of every order. It commits once a second, after it has produced: a killed instance makes doubles."""

import signal
import sys
import time

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
producer = Producer({"bootstrap.servers": bootstrap})
consumer.subscribe([orders])
print("subscribed", flush=True)
committed, uncommitted = time.monotonic(), False

try:
    while not stopping:
        messages = [message for message in consumer.consume(500, 0.5) if message.error() is None]
        for message in messages:
            producer.produce(invoices, message.value(), message.key())
        if producer.flush(30):
            raise SystemExit("some invoices were not acknowledged: nothing is committed")
        uncommitted = uncommitted or bool(messages)
        if uncommitted and time.monotonic() - committed > 1:
            consumer.commit(asynchronous=False)
            committed, uncommitted = time.monotonic(), False
finally:
    consumer.close()
