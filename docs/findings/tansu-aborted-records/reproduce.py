"""A record of an aborted transaction, read from Tansu with read_committed."""

from confluent_kafka import Producer
from local_kafka import read_committed
from local_tansu import tansu

TOPIC = "aborted-records"


def main(_):
    with tansu(TOPIC) as servers:
        producer = Producer({**servers, "transactional.id": "aborts", "linger.ms": 0})
        producer.init_transactions(30)
        for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(TOPIC, value, partition=0)
            producer.flush(10)
            end(30)
        values = read_committed(servers, TOPIC)
    return ("read_committed consumers read ['committed']", f"they read {values}", "aborted" in values)
