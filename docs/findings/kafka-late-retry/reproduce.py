"""A Produce request that arrives a second time, on another connection, after its transaction has been committed."""

import time

from confluent_kafka import KafkaException, Producer
from local_kafka import PRODUCE, Cluster, Proxy

TOPIC = "late-retry"
requests = []


def keep(api, frame, _):
    if api == PRODUCE:
        requests.append(frame)
    return frame


def transaction(producer, value):
    """Returns the outcome of a transaction with one record."""
    producer.begin_transaction()
    producer.produce(TOPIC, value, partition=0)
    try:
        producer.flush(20)
        producer.commit_transaction(20)
    except KafkaException as raised:
        return f"{raised.args[0].name()}: {raised.args[0].str()}"
    return "committed"


def main(kafka):
    proxy = Proxy(on_request=keep)
    with Cluster(kafka, advertised_port=proxy.port) as cluster:
        proxy.serve(cluster.brokers[0])
        cluster.create_topic(TOPIC)
        producer = Producer({**proxy.clients, "transactional.id": "late-retry", "linger.ms": 0})
        producer.init_transactions(30)
        first = transaction(producer, b"first")
        time.sleep(1)  # until the coordinator has written the markers
        proxy.send(requests[0])
        second = transaction(producer, b"second")
    return (
        "both transactions are committed",
        f"the first one: {first}; the second one: {second}",
        first == "committed" and second.startswith("OUT_OF_ORDER_SEQUENCE_NUMBER"),
    )
