"""The record after an aborted transaction, one of whose records was appended without an answer."""

import threading

from confluent_kafka import Producer
from local_kafka import PRODUCE, Cluster, Proxy, read_committed

TOPIC = "sequence"
is_cut = threading.Event()


def cut_first_answer(api, frame, connection):
    """The first answer to a Produce request is lost: its connection breaks."""
    if api == PRODUCE and not is_cut.is_set():
        connection.close()
        is_cut.set()
        return None
    return frame


def main(kafka):
    proxy = Proxy(on_response=cut_first_answer)
    with Cluster(kafka, advertised_port=proxy.port) as cluster:
        proxy.serve(cluster.brokers[0])
        cluster.create_topic(TOPIC)
        # The backoff keeps the first record in the queue until its transaction is aborted.
        slow = {"retry.backoff.ms": 5000, "retry.backoff.max.ms": 5000}
        producer = Producer({**proxy.clients, **slow, "transactional.id": "sequence", "linger.ms": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(TOPIC, b"aborted", partition=0)
        if not is_cut.wait(10):
            raise TimeoutError("no record was sent within 10 s")
        producer.abort_transaction(30)

        delivered = []
        producer.begin_transaction()
        producer.produce(
            TOPIC,
            b"committed",
            partition=0,
            on_delivery=lambda error, message: delivered.append((error, message.offset())),
        )
        producer.commit_transaction(30)
        values = read_committed(proxy.clients, TOPIC)
    ((error, offset),) = delivered
    return (
        "the record of the committed transaction is delivered, and read",
        f"it is delivered: {error or f'at offset {offset}'}; records of committed transactions in the log: {values}",
        error is None and values != ["committed"],
    )
