"""A producer of Tansu disappears within a transaction: when do read_committed consumers read later records?"""

import time

from confluent_kafka import Producer
from local_kafka import read_committed
from local_tansu import tansu

TOPIC = "open-transaction"
TIMEOUT_MS = 1000
WAIT_S = 30  # Kafka looks for transactions that have timed out every 10 s


def main(_):
    with tansu(TOPIC) as servers:
        timeouts = {"transaction.timeout.ms": TIMEOUT_MS, "message.timeout.ms": TIMEOUT_MS}
        gone = Producer({**servers, **timeouts, "transactional.id": "gone", "linger.ms": 0})
        gone.init_transactions(30)
        gone.begin_transaction()
        gone.produce(TOPIC, b"open", partition=0)
        gone.flush(10)
        ordinary = Producer(servers)
        ordinary.produce(TOPIC, b"later", partition=0)
        ordinary.flush(10)
        begun, values = time.monotonic(), []
        while "later" not in values and time.monotonic() - begun < WAIT_S:
            time.sleep(1)
            values = read_committed(servers, TOPIC)
        waited_s = time.monotonic() - begun
    return (
        f"the transaction is aborted after its timeout of {TIMEOUT_MS} ms, and consumers read ['later']",
        f"after {waited_s:.0f} s, read_committed consumers read {values}",
        "later" not in values,
    )
