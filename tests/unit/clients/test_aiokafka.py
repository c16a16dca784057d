"""The aiokafka adapter where it needs no broker: options, errors, its loop, what it tells of rebalances."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka import TopicPartition, errors

from harness.clients.aiokafka import group, settings_and_errors
from harness.clients.aiokafka.adapter import Aiokafka, problem
from harness.clients.aiokafka.consumer import AiokafkaConsumer
from harness.clients.aiokafka.group import Listener
from harness.clients.aiokafka.loop import Loop
from harness.clients.error_outcomes import outcome
from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError

BASE = {"bootstrap": "127.0.0.1:1", "run": "r", "process": 3}
A, B, C = (TopicPartition("r-0", n) for n in range(3))


def made(**given: Any) -> Settings:
    return parse_settings({**BASE, **given})


def test_options() -> None:
    plain = settings_and_errors.producer(made(acks="1", request_timeout_s=2, producer_config={"linger.ms": "7"}))
    assert (plain["acks"], plain["request_timeout_ms"], plain["linger_ms"]) == (1, 2000, 7)
    assert plain["enable_idempotence"] is False and "transactional_id" not in plain
    txn = settings_and_errors.producer(made(txn=True))
    assert (txn["acks"], txn["transactional_id"], txn["enable_idempotence"]) == ("all", "r-3", True)
    consumer = settings_and_errors.consumer(made(auto_commit=True, consumer_config={"check.crcs": "false"}))
    assert (consumer["group_id"], consumer["enable_auto_commit"], consumer["check_crcs"]) == (
        "r-group",
        True,
        False,
    )
    # A request to join waits for the other members, and they have a session's time.
    assert consumer["request_timeout_ms"] > consumer["session_timeout_ms"]
    assert next(each.name for each in consumer["partition_assignment_strategy"]) == "range"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"retries": 0}, "no such setting"),
        ({"producer_config": {"acks": "0"}}, "use --acks"),
        ({"consumer_config": {"group.id": "g"}}, "has its own group"),
        ({"consumer_config": {"no.such": "1"}}, "no option no_such"),
        ({"producer_config": {"linger.ms": "soon"}}, "whole number"),
        ({"consumer_config": {"check.crcs": "maybe"}}, "true or false"),
        ({"producer_config": {"compression.type": "tin"}}, "ompression"),
        ({"consumer_config": {"max.poll.records": "0"}}, "max_poll_records"),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_is_sent(given: dict[str, Any], message: str) -> None:
    assert message in problem({**BASE, **given})


def test_it_has_nothing_against_what_it_can_do() -> None:
    assert problem({**BASE, "txn": True, "producer_config": {"linger.ms": "1"}}) == ""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.NotLeaderForPartitionError(), ("NOT_LEADER_FOR_PARTITION", "retriable")),
        (errors.MessageSizeTooLargeError("big"), ("MSG_SIZE_TOO_LARGE", "plain")),
        (errors.UnknownTopicOrPartitionError(), ("UNKNOWN_TOPIC_OR_PART", "retriable")),
        (errors.OutOfOrderSequenceNumber(), ("OUT_OF_ORDER_SEQUENCE_NUMBER", "fatal")),
        (errors.ProducerFenced(), ("_FENCED", "fatal")),
        (errors.KafkaConnectionError("gone"), ("_TRANSPORT", "retriable")),
        (errors.TopicAuthorizationFailedError("t"), ("TOPIC_AUTHORIZATION_FAILED", "abortable")),
        (errors.CommitFailedError("late"), ("_CommitFailedError", "plain")),
        (errors.KafkaError("Unexpected error during batch delivery"), ("_KafkaError", "fatal")),
        (AssertionError("Invalid state transition"), ("_STATE", "fatal")),
    ],
)
def test_errors(raised: BaseException, expected: tuple[str, str]) -> None:
    found = settings_and_errors.converted(raised)
    assert (found.code, found.kind) == expected


def test_errors_prove_no_more_than_they_do() -> None:
    def judged(situation: Any, raised: BaseException) -> str:
        return outcome(situation, settings_and_errors.converted(raised), retries_off=False)

    assert judged("send", errors.MessageSizeTooLargeError("big")) == "fail"  # never queued
    assert judged("send", errors.KafkaConnectionError("gone")) == "fail"
    for report in (errors.NotEnoughReplicasError(), errors.RequestTimedOutError(), errors.ProducerFenced()):
        assert judged("report", report) == "info"
    # The library repeats a commit without telling: an earlier try may have been heard.
    assert judged("commit-offsets", errors.CommitFailedError("late")) == "info"


# --- the loop ---


def test_calls_return_raise_and_are_cancelled_in_time() -> None:
    loop = Loop("test")
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def seven() -> int:
        return 7

    async def wrong() -> None:
        raise errors.KafkaTimeoutError("theirs")

    assert loop.call(seven, 5.0, "seven") == 7
    with pytest.raises(errors.KafkaTimeoutError):
        loop.call(wrong, 5.0, "wrong")
    with pytest.raises(ClientError, match="_TIMED_OUT: forever took longer"):
        loop.call(forever, 0.05, "forever")
    assert cancelled == [True]
    ended = []

    async def last() -> None:
        ended.append(True)

    loop.end(last)
    loop.end(last)
    loop._thread.join(10)
    assert ended == [True] and not loop._thread.is_alive()
    with pytest.raises(ClientError, match="closed"):
        loop.call(seven, 1.0, "seven")


def test_without_a_cluster_calls_end_within_the_ops_time() -> None:
    short = made(op_timeout_s=0.4)
    producer, consumer = Aiokafka().producer(short), Aiokafka().consumer(short)
    began = time.monotonic()
    with pytest.raises(ClientError, match="_TIMED_OUT"):
        producer.send(("r-0", 0), b"x")
    with pytest.raises(ClientError, match="_TIMED_OUT"):
        consumer.assign({("r-0", 0): 0})
    with pytest.raises(ClientError, match="_STATE") as raised:
        consumer.poll(0.0, 1)
    assert raised.value.kind == "fatal" and time.monotonic() - began < 5
    producer.close()
    consumer.close(leave=True)


# --- rebalances ---


class FakeConsumer:
    """As much of AIOKafkaConsumer as is used. `given`: what getmany returns or raises, in turn."""

    def __init__(self) -> None:
        self.assigned: set[Any] = set()
        self.stopped: set[Any] = set()
        self.given: list[Any] = []
        self.at: dict[Any, int] = {}
        self.commits: list[Any] = []

    def assignment(self) -> set[Any]:
        return set(self.assigned)

    def pause(self, *partitions: Any) -> None:
        self.stopped |= set(partitions)

    def resume(self, *partitions: Any) -> None:
        self.stopped -= set(partitions)

    async def committed(self, partition: Any) -> int | None:
        if partition == C:
            raise errors.GroupCoordinatorNotAvailableError
        return 5 if partition == A else None

    async def position(self, partition: Any) -> int:
        if partition not in self.at:
            await asyncio.Event().wait()  # as long as it is not known
        return self.at[partition]

    async def getmany(self, timeout_ms: int, max_records: int) -> Any:
        if not self.given:
            return {}
        found = self.given.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    async def commit(self, offsets: Any) -> None:
        self.commits.append(offsets)

    def seek(self, partition: Any, offset: int) -> None:
        self.at[partition] = offset

    def assign(self, partitions: Any) -> None:
        self.assigned = set(partitions)


def test_a_revocation_waits_for_the_poll_and_an_assignment_gives_nothing_before_it() -> None:
    async def scenario() -> None:
        consumer = FakeConsumer()
        listener = Listener(consumer)
        consumer.assigned = {A, B, C}
        await listener.on_partitions_assigned({A, B, C})
        assert consumer.stopped == listener.unreported == {A, B, C}
        events = await listener.take()
        # C's coordinator did not answer: nothing is said of it.
        assert events == [("assigned", [("r-0", n) for n in range(3)], {("r-0", 0): 5, ("r-0", 1): None})]
        assert consumer.stopped == listener.unreported == set()

        revoking = asyncio.ensure_future(listener.on_partitions_revoked({A, B, C}))
        await asyncio.sleep(0)
        assert listener.revoked([("r-0", 1)]) and not listener.revoked([("r-1", 1)]) and not revoking.done()
        assert [event for event, _, _ in await listener.take()] == ["revoked"]
        await asyncio.wait_for(revoking, 5)
        assert not listener.revoked([("r-0", 1)])

        listener.release()  # it is about to leave: nothing waits any more
        await asyncio.wait_for(listener.on_partitions_revoked({A}), 5)

    asyncio.run(scenario())


def test_a_poll_that_never_comes_holds_a_group_up_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "HANDOVER_S", 0.01)

    async def scenario() -> None:
        listener = Listener(FakeConsumer())
        await listener.on_partitions_revoked({A})
        assert listener.revoked([("r-0", 0)])

    asyncio.run(scenario())


class Fetched:
    def __init__(self, partition: Any, offset: int) -> None:
        self.topic, self.partition, self.offset, self.value = (
            partition.topic,
            partition.partition,
            offset,
            b"v",
        )


def with_fake() -> tuple[AiokafkaConsumer, FakeConsumer]:
    consumer, fake = AiokafkaConsumer(made()), FakeConsumer()
    consumer._consumer = fake
    return consumer, fake


def test_what_a_failed_poll_had_taken_is_given_again() -> None:
    consumer, fake = with_fake()
    consumer.assign({("r-0", 0): 4, ("r-0", 1): 0})
    fake.given = [{A: [Fetched(A, 4), Fetched(A, 5)]}, errors.CorruptRecordException("crc")]
    assert [record.offset for record in consumer.poll(1.0, 10).records] == [4, 5]
    fake.at = {A: 9, B: 9}  # the library has gone on
    with pytest.raises(ClientError, match="INVALID_MSG") as raised:
        consumer.poll(1.0, 10)
    assert raised.value.kind == "plain" and fake.at == {A: 6, B: 0}
    fake.assigned |= {C}  # of this one nothing is known: the consumer cannot go on
    fake.given = [errors.CorruptRecordException("crc")]
    with pytest.raises(ClientError) as raised:
        consumer.poll(1.0, 10)
    assert raised.value.kind == "fatal"
    consumer.close(leave=False)


def test_positions_are_told_where_they_are_known() -> None:
    consumer, fake = with_fake()
    consumer.assign({("r-0", 0): 4, ("r-0", 1): 0})
    fake.at = {A: 7}
    assert consumer.poll(0.0, 10).ends == {("r-0", 0): 7}
    consumer.close(leave=False)


def test_offsets_of_partitions_that_are_gone_are_not_committed() -> None:
    consumer, fake = with_fake()
    events: list[Any] = []
    fake.subscribe = lambda topics, listener: None  # type: ignore[attr-defined]
    consumer.subscribe(["r-0"], lambda *event: events.append(event))
    listener, fake.assigned = consumer._listener, {A}
    assert listener is not None
    consumer._loop.call(lambda: listener.on_partitions_assigned({A}), 5.0, "assign")
    consumer.poll(0.0, 10)
    consumer.commit({("r-0", 0): 6}, 5.0)
    assert fake.commits == [{A: 6}]

    async def revoke() -> Any:
        return asyncio.ensure_future(listener.on_partitions_revoked({A}))

    consumer._loop.call(revoke, 5.0, "revoke")
    consumer._loop.call(lambda: asyncio.sleep(0), 5.0, "its turn")
    with pytest.raises(ClientError, match="_ASSIGNMENT_LOST") as raised:
        consumer.commit({("r-0", 0): 7}, 5.0)
    assert raised.value.kind == "abortable" and outcome("commit-offsets", raised.value, False) == "fail"
    consumer.poll(0.0, 10)
    assert [event for event, _, _ in events] == ["assigned", "revoked"]
    consumer.close(leave=False)


def test_options_of_a_type_that_the_library_refuses_are_bad_input() -> None:
    with pytest.raises(BadInput, match="producer settings"):
        Aiokafka().producer(made(producer_config={"compression.type": "tin"}))
