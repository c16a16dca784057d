"""A consumer that is assigned a partition at the beginning, and then at offset 5 before the first offset is known."""

import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from local_kafka import LIST_OFFSETS, Cluster, Proxy

TOPIC = "beginning"
COUNT = 10
is_asked, may_answer = threading.Event(), threading.Event()


def hold(api, frame, _):
    """The answer to the first ListOffsets request is slow."""
    if api == LIST_OFFSETS and not is_asked.is_set():
        is_asked.set()
        may_answer.wait(20)
    return frame


def poll(consumer, for_s):
    """Returns the offsets of all records that arrive within `for_s` seconds."""
    offsets, end = [], time.monotonic() + for_s
    while time.monotonic() < end:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            offsets.append(message.offset())
    return offsets


def main(kafka):
    proxy = Proxy(on_response=hold)
    with Cluster(kafka, advertised_port=proxy.port) as cluster:
        proxy.serve(cluster.brokers[0])
        cluster.create_topic(TOPIC)
        producer = Producer(cluster.clients)
        for number in range(COUNT):
            producer.produce(TOPIC, str(number).encode(), partition=0)
        producer.flush(10)

        consumer = Consumer({**proxy.clients, "group.id": "beginning", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        if not is_asked.wait(10):
            raise TimeoutError("the consumer has not asked for the first offset within 10 s")
        consumer.assign([TopicPartition(TOPIC, 0, 5)])
        may_answer.set()
        offsets = poll(consumer, 5)
        consumer.close()
    return (
        f"the consumer reads offsets {list(range(5, COUNT))}",
        f"it reads offsets {offsets}",
        offsets != list(range(5, COUNT)),
    )
