"""The wire proxy in front of a real cluster: traffic of real clients passes unchanged, and rules take effect."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster.distribution import jars, java
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.spec import ClusterSpec
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.racks import rack
from harness.model.wire_rules import BROKERS, Rule

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(180)]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """Brokers without a network of their own, so that effects come from the proxy, which they use too."""
    work_dir = tmp_path_factory.mktemp("wire") / "cluster"
    made = LoopbackCluster(ClusterSpec(work_dir=work_dir, proxy="everybody", racks=3))
    try:
        made.up(print)
        yield made
    finally:
        made.down()


@pytest.fixture
def topic(cluster: LoopbackCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("[", "-").replace("]", "")
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
    admin.create_topics([NewTopic(name, 1, 3)])[name].result(20)
    assert ends(cluster, name) == 0, "its leader knows it"
    yield name
    cluster.clear_rules("test")


def ends(cluster: LoopbackCluster, topic: str) -> int:
    """The log end offset. Retries, as brokers may learn of a new topic after its creation is acknowledged."""
    consumer = Consumer({"bootstrap.servers": cluster.direct_bootstrap, "group.id": "ends"})
    marks: list[tuple[int, int]] = []

    def answered() -> bool:
        marks.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), 10))
        return True

    assert _soon(answered)
    consumer.close()
    return marks[0][1]


def send(cluster: LoopbackCluster, topic: str, **settings: Any) -> tuple[KafkaError | None, float]:
    """Sends a record through the proxy. Returns its error, if any, and how long that took."""
    errors: list[KafkaError | None] = []
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "request.timeout.ms": 5000,
        "socket.timeout.ms": 6000, **{name.replace("_", "."): value for name, value in settings.items()},
    })  # fmt: skip
    producer.list_topics(topic, 10)

    def report(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    began = time.monotonic()
    producer.produce(topic, b"x", partition=0, on_delivery=report)
    producer.flush(20)
    return errors[0], time.monotonic() - began


@pytest.mark.parametrize("client", ["confluent", "aiokafka", "java"])
def test_what_real_clients_say_passes_and_every_answer_has_its_request(
    cluster: LoopbackCluster, client: str, tmp_path: Path
) -> None:
    argv = [sys.executable, str(HERE / f"wire_client_{client}.py"), cluster.bootstrap]
    if client == "java":
        argv.append(jars.ensure(cluster.version, java.find(), print).classpath)
    log = tmp_path / "client.log"
    before = cluster.wire_traffic()
    child = cluster.spawn("w0", argv, {}, [], str(log))
    assert child.wait(90) == 0, log.read_text()
    assert "read 200" in log.read_text()
    after = cluster.wire_traffic()
    assert after.requests - before.requests > 100
    assert after.unanswered > before.unanswered  # acks=0
    assert (after.unmatched, after.unknown, after.unparsed) == (0, 0, 0)
    # When a connection ends, its last request may stay unanswered.
    open_or_ended = after.connections
    assert 0 <= after.requests - after.responses - after.unanswered <= open_or_ended
    assert 0 <= after.bytes_in - after.bytes_out < 1 << 16


def test_a_duplicated_request_is_stored_twice_unless_it_is_idempotent(cluster: LoopbackCluster, topic: str) -> None:
    """The producer gets the response to the first copy, maybe before the broker has read the second.

    So it sends a second record: a broker handles the requests of a connection one after the other, and has handled the
    second copy when it acknowledges that record.
    """
    for idempotent, end in ((True, 2), (False, 2 + 3)):
        cluster.apply_rules("test", [Rule("duplicate", ("Produce",), count=1)], 1)
        config = {"linger.ms": 0, "enable.idempotence": idempotent}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **config})
        for name in ("first", "second"):
            producer.produce(topic, name.encode(), partition=0)
            assert producer.flush(20) == 0
        assert cluster.rule_counts("test")[0].applied == 1
        assert ends(cluster, topic) == end


def test_a_swap_reverses_records_unless_their_producer_is_idempotent(cluster: LoopbackCluster, topic: str) -> None:
    """Two requests are in flight, and the second arrives first: only sequence numbers keep the order of the log.

    Brokers accept any sequence number from a producer that they do not know, so each producer first sends a record. An
    idempotent producer of librdkafka ends with an error when a broker refuses its second record.
    """
    for idempotent in (False, True):
        config = {"linger.ms": 0, "batch.num.messages": 1, "enable.idempotence": idempotent}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **config})
        producer.produce(topic, b"", partition=0)
        assert producer.flush(20) == 0
        cluster.apply_rules("test", [Rule("swap", ("Produce",), for_s=2, count=1)], 1)
        for name in ("first", "second"):
            producer.produce(topic, f"{name}, {idempotent}".encode(), partition=0)
        with pytest.raises(KafkaException, match="OUT_OF_ORDER") if idempotent else nullcontext():
            producer.flush(20)
        assert cluster.rule_counts("test")[0].applied == 1
    assert values(cluster, topic, 5) == [b"", b"second, False", b"first, False", b"", b"first, True"]
    assert ends(cluster, topic) == 5


def values(cluster: LoopbackCluster, topic: str, count: int) -> list[bytes]:
    """The first records of the log."""
    consumer = Consumer({"bootstrap.servers": cluster.direct_bootstrap, "group.id": "values"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, 20)
    consumer.close()
    return [message.value() or b"" for message in found]


@pytest.mark.parametrize(
    "rule",
    [Rule("drop", ("Produce",), "response", count=1), Rule("cut", ("Produce",), count=1)],
    ids=["drop", "cut"],
)
def test_a_lost_acknowledgement_makes_a_duplicate(cluster: LoopbackCluster, topic: str, rule: Rule) -> None:
    before = ends(cluster, topic)
    cluster.apply_rules("test", [rule], 1)
    error, _ = send(cluster, topic, enable_idempotence=False, retries=5)
    assert error is None
    # After a cut, the broker may read the retry, which arrives on another connection, before the first attempt.
    assert _soon(lambda: ends(cluster, topic) == before + 2)
    assert cluster.rule_counts("test")[0].applied == 1


def test_a_refused_request_is_sent_again_and_stored_once(cluster: LoopbackCluster, topic: str) -> None:
    cluster.apply_rules("test", [Rule("answer", ("Produce",), count=1, error="NOT_LEADER_OR_FOLLOWER")], 1)
    error, _ = send(cluster, topic, enable_idempotence=True)
    assert error is None
    assert ends(cluster, topic) == 1
    assert cluster.rule_counts("test")[0].applied == 1


def test_an_error_after_the_record_was_stored(cluster: LoopbackCluster, topic: str) -> None:
    rule = Rule("answer", ("Produce",), "response", error="REQUEST_TIMED_OUT")
    cluster.apply_rules("test", [rule], 1)
    error, _ = send(cluster, topic, enable_idempotence=False, retries=0)
    assert error is not None and error.code() == KafkaError.REQUEST_TIMED_OUT
    assert ends(cluster, topic) == 1


def test_a_lost_request_is_sent_again_and_stored_once(cluster: LoopbackCluster, topic: str) -> None:
    cluster.apply_rules("test", [Rule("drop", ("Produce",), count=1)], 1)
    error, took_s = send(cluster, topic, enable_idempotence=False, retries=5)
    assert error is None
    assert took_s > 5
    assert ends(cluster, topic) == 1


def test_brokers_that_fetch_slowly_acknowledge_slowly(cluster: LoopbackCluster, topic: str) -> None:
    assert send(cluster, topic)[0] is None
    cluster.apply_rules("test", [Rule("delay", ("Fetch",), "response", sender=BROKERS, for_s=0.7)], 1)
    error, took_s = send(cluster, topic, request_timeout_ms=10_000, socket_timeout_ms=11_000)
    assert error is None
    assert took_s > 0.7
    assert cluster.clear_rules("test")[0].applied > 0


def test_a_follower_serves_the_consumers_of_its_rack(cluster: LoopbackCluster, topic: str) -> None:
    """The leader names the follower; from then on the consumer gets new records although it cannot reach the leader."""
    assert send(cluster, topic)[0] is None
    leader = cluster.nodes[leader_of(cluster, topic) - 1]
    follower = next(node for node in cluster.nodes if node != leader)
    number = cluster.nodes.index(follower) + 1
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "racks", "client.rack": rack(number, 3)}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert len(consumer.consume(1, 20)) == 1
    cluster.apply_rules("test", [Rule("delay", ("Fetch",), node=follower, for_s=0.0)], 1)
    assert _soon(lambda: consumer.poll(0.1) is None and cluster.rule_counts("test")[0].applied > 2)
    producer = Producer({"bootstrap.servers": cluster.direct_bootstrap})  # a client of the listener of brokers
    cluster.apply_rules("test", [Rule("drop", ("Fetch",), node=leader), Rule("delay", ("Fetch",), node=follower)], 1)
    producer.produce(topic, b"later", partition=0)
    producer.flush(20)
    (later,) = consumer.consume(1, 20)
    assert later.value() == b"later"
    assert cluster.rule_counts("test")[0].applied == 0
    consumer.close()


def leader_of(cluster: LoopbackCluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
    return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)


def test_silence_is_a_partition_of_clients_that_brokers_do_not_notice(cluster: LoopbackCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    cluster.apply_rules("test", [Rule("drop"), Rule("drop", direction="response")], 1)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1.5)
    assert _soon(lambda: all(len(cluster.seen_by(node)) == 3 for node in cluster.nodes))
    cluster.clear_rules("test")
    assert _soon(lambda: topic in admin.list_topics(timeout=5).topics)


def _soon(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if what():
                return True
        except KafkaException:
            pass
        time.sleep(0.1)
    return False


def test_a_missing_proxy_is_reported(tmp_path: Path) -> None:
    cluster = LoopbackCluster(ClusterSpec(nodes=1, work_dir=tmp_path / "cluster", proxy="clients"))
    try:
        cluster.up(print)
        proxy = cluster._up().proxy
        assert proxy is not None
        proxy.child.signal(9)
        proxy.child.wait(5)
        with pytest.raises(ClusterTrouble, match="the wire proxy has ended"):
            cluster.wire_traffic()
    finally:
        cluster.down()
