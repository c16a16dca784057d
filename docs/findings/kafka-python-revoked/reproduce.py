"""A commit of offsets within on_partitions_revoked of kafka-python: python reproduce.py HOST:PORT"""

import sys
import threading
import time

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

TOPIC = f"kafka-python-revoked-{time.time_ns()}"
SERVERS = sys.argv[1]


class Member(ConsumerRebalanceListener):
    """A member of the group, which commits its positions when its partitions are revoked."""

    def __init__(self, name):
        self.name = name
        self.read = []
        self.commits = []
        self.raised = None
        self.consumer = KafkaConsumer(
            bootstrap_servers=SERVERS,
            group_id=TOPIC,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
        )
        self.consumer.subscribe([TOPIC], listener=self)

    def on_partitions_assigned(self, assigned):
        pass

    def on_partitions_revoked(self, revoked):
        if revoked and self.read:
            try:
                self.consumer.commit()
                self.commits.append("succeeded")
            except Exception as raised:
                self.commits.append(f"{type(raised).__name__}: {raised}")

    def poll(self):
        try:
            for records in self.consumer.poll(timeout_ms=100).values():
                self.read += [f"{record.partition}/{record.offset}" for record in records]
        except Exception as raised:
            self.raised = raised

    def poll_until(self, is_done):
        end = time.monotonic() + 15
        while not is_done() and self.raised is None and time.monotonic() < end:
            self.poll()


def main():
    admin = KafkaAdminClient(bootstrap_servers=SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=SERVERS)
    for number in range(4):
        producer.send(TOPIC, b"x", partition=number // 2)
    producer.flush()
    producer.close()

    first = Member("first")
    first.poll_until(lambda: len(first.read) == 4)
    if len(first.read) != 4:
        print(f"the first member read {first.read} in 15 s: {first.raised}", file=sys.stderr)
        sys.exit(2)
    second = Member("second")
    settled = threading.Event()
    thread = threading.Thread(target=second.poll_until, args=[settled.is_set])
    thread.start()
    first.poll_until(lambda: first.commits and len(second.consumer.assignment()) == 1)
    end = time.monotonic() + 3
    first.poll_until(lambda: time.monotonic() > end)
    settled.set()
    thread.join()

    again = first.read[4:] + second.read
    print("expected: the commit succeeds, and no record is read again")
    print(f"found:    {first.commits[0] if first.commits else 'no revocation'}")
    print(f"          read again: {', '.join(again) or 'nothing'}")
    for member in (first, second):
        member.consumer.close(autocommit=False)
    sys.exit(0 if again or first.commits != ["succeeded"] else 1)


main()
