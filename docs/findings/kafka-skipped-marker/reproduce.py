"""A transaction that is committed while one of its partitions has no leader."""

from confluent_kafka import IsolationLevel, Producer
from local_kafka import Cluster, deliver, leader, offset, read, wait_for

TOPIC = "t"
# When one broker is down, the other one is the transaction coordinator.
CONFIG = {"transaction.state.log.replication.factor": 2}
PATIENCE_S = 20


def commit(settings, transactional_id, value, before_commit=lambda: None):
    producer = Producer({**settings, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    deliver(producer, TOPIC, value)
    before_commit()
    producer.commit_transaction(60)


def main(kafka):
    with Cluster(kafka, brokers=2, config=CONFIG) as cluster:
        first, second = cluster.brokers
        admin = cluster.create_topic(TOPIC, (2,))
        wait_for(lambda: leader(admin, TOPIC) == 2, 30, "the partition has a leader")

        def kill_leader():
            second.kill()
            wait_for(lambda: leader(admin, TOPIC) == -1, 60, "the partition has no leader")

        commit(cluster.clients, "first", "a", kill_leader)
        second.start()
        wait_for(lambda: leader(admin, TOPIC) == 2, 60, "the partition has its leader again")
        commit(cluster.clients, "second", "b")
        values = read(cluster.clients, TOPIC, 2, PATIENCE_S)
        stable, end = offset(admin, TOPIC, IsolationLevel.READ_COMMITTED), offset(admin, TOPIC)
        skipped = first.log.read_text().count("can be skipped")
    found = f"{values} within {PATIENCE_S} s, last stable offset {stable} of {end}; markers skipped: {skipped}"
    return "both transactions were committed, so a consumer reads ['a', 'b']", found, values != ["a", "b"]
