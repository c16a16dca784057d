"""Two records of a new idempotent producer: the broker refuses the first one, and accepts the second one."""

import threading

from confluent_kafka import Producer
from local_kafka import PRODUCE, Cluster, Proxy, lower_min_isr, read_committed, wait_for

TOPIC = "implied-acks"


class Order:
    """The order in which requests and answers pass the proxy."""

    def __init__(self):
        self.count = 0
        self.second_is_sent, self.first_is_refused, self.may_pass = (threading.Event() for _ in range(3))

    def request(self, api, frame, _):
        if api == PRODUCE:
            self.count += 1
            if self.count == 2:
                self.second_is_sent.set()
                self.may_pass.wait(30)
        return frame

    def response(self, api, frame, _):
        if api == PRODUCE and not self.first_is_refused.is_set():
            self.second_is_sent.wait(30)
            self.first_is_refused.set()
        return frame


def main(kafka):
    order = Order()
    proxy = Proxy(order.request, order.response)
    with Cluster(kafka, brokers=2, advertised_port=proxy.port) as cluster:
        proxy.serve(cluster.brokers[0])
        admin = cluster.create_topic(TOPIC, replicas=(1, 2), min_insync_replicas=2)
        cluster.brokers[1].kill()
        wait_for(lambda: admin.list_topics(TOPIC).topics[TOPIC].partitions[0].isrs == [1], 40, "the ISR shrinks to 1")

        one_each = {"enable.idempotence": True, "batch.num.messages": 1, "linger.ms": 0}
        slow = {"retry.backoff.ms": 2000, "retry.backoff.max.ms": 2000}
        producer = Producer({**proxy.clients, **one_each, **slow})
        delivered = []
        for value in (b"first", b"second"):
            producer.produce(
                TOPIC, value, partition=0, on_delivery=lambda error, message: delivered.append((message.value(), error))
            )
        if not order.first_is_refused.wait(20):
            raise TimeoutError("the first record was not refused within 20 s")
        lower_min_isr(admin, cluster.clients, TOPIC)
        order.may_pass.set()
        producer.flush(20)
        values = read_committed(cluster.clients, TOPIC)
    reported = [value.decode() for value, error in delivered if error is None]
    return (
        "the log has every record that is reported as delivered",
        f"reported as delivered: {reported}; in the log: {values}",
        not set(reported) <= set(values),
    )
