"""Three records of an idempotent producer: the first one is stored but not acknowledged, the second one is refused."""

import threading

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from local_kafka import PRODUCE, Cluster, Proxy, lower_min_isr, read_committed, wait_for

TOPIC = "new-epoch"
CONFIG = {"replica.lag.time.max.ms": 6000}


class Order:
    """Lets the second and the third Produce request wait until the reproduction lets them pass."""

    def __init__(self):
        self.requests = self.responses = 0
        self.may_pass = [threading.Event() for _ in range(3)]
        self.is_answered = [threading.Event() for _ in range(3)]
        self.may_pass[0].set()

    def request(self, api, frame, _):
        if api == PRODUCE and self.requests < 3:
            self.requests += 1
            self.may_pass[self.requests - 1].wait(60)
        return frame

    def response(self, api, frame, _):
        if api == PRODUCE and self.responses < 3:
            self.responses += 1
            self.is_answered[self.responses - 1].set()
        return frame

    def let_pass(self, number):
        self.may_pass[number].set()
        if not self.is_answered[number].wait(30):
            raise TimeoutError(f"request {number} was not answered within 30 s")


def main(kafka):
    order = Order()
    proxy = Proxy(order.request, order.response)
    with Cluster(kafka, brokers=2, advertised_port=proxy.port, config=CONFIG) as cluster:
        proxy.serve(cluster.brokers[0])
        cluster.create_topic(TOPIC, replicas=(1, 2), min_insync_replicas=2)
        cluster.brokers[1].pause()
        admin = AdminClient(cluster.clients)  # one that has never been connected to the paused broker

        one_each = {"enable.idempotence": True, "batch.num.messages": 1, "linger.ms": 0}
        slow = {"retry.backoff.ms": 20000, "retry.backoff.max.ms": 20000, "request.timeout.ms": 1000}
        producer = Producer({**proxy.clients, **one_each, **slow})
        for value in (b"first", b"second", b"third"):
            producer.produce(TOPIC, value, partition=0)
        order.let_pass(0)  # it is stored, and answered with REQUEST_TIMED_OUT, because the follower does not fetch it
        wait_for(lambda: admin.list_topics(TOPIC).topics[TOPIC].partitions[0].isrs == [1], 30, "the ISR shrinks to 1")
        order.let_pass(1)  # it is refused with NOT_ENOUGH_REPLICAS
        lower_min_isr(admin, cluster.clients, TOPIC)
        order.let_pass(2)  # it is refused with OUT_OF_ORDER_SEQUENCE_NUMBER
        producer.flush(50)
        values = read_committed(cluster.clients, TOPIC)
    return ("each record is in the log once", f"the log: {', '.join(values)}", len(values) > len(set(values)))
