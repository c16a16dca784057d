"""The Java client's adapter: what needs no JVM."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from py4j.protocol import Py4JError

from harness.clients.client_protocols import Batch, Record
from harness.clients.error_outcomes import outcome
from harness.clients.java import settings_and_errors
from harness.clients.java.consumer import JavaConsumer
from harness.clients.java.jvm import Machine
from harness.clients.java.records import parsed
from harness.clients.settings import parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError
from tests.conftest import absent

BASE = {"bootstrap": "b:1", "run": "r", "process": 3}
HEAD = (
    "ConsumerRecord(topic = r-0, partition = 2, leaderEpoch = 7, offset = {offset}, CreateTime = 17, "
    "{more}serialized key size = -1, serialized value size = {size}, headers = RecordHeaders(headers = [], "
    "isReadOnly = false), key = null, value = "
)


def text(*values: bytes | None, more: str = "") -> str:
    """As a Java list of records prints itself."""
    written = [
        HEAD.format(offset=n, size=-1 if value is None else len(value), more=more)
        + ("null" if value is None else value.decode("latin-1"))
        + ")"
        for n, value in enumerate(values)
    ]
    return f"[{', '.join(written)}]"


@pytest.mark.parametrize("more", ["", "deliveryCount = null, "])
def test_records_are_read_by_the_size_of_their_values(more: str) -> None:
    tricky = HEAD.format(offset=9, size=1, more="").encode() + b"x), ConsumerRecord("
    values = [b"", b"plain", bytes(range(256)), tricky, None, b"), "]
    assert parsed(text(*values, more=more)) == [Record("r-0", 2, n, value) for n, value in enumerate(values)]


def test_no_records() -> None:
    assert parsed("[]") == []


@pytest.mark.parametrize("damaged", ["[x]", text(b"abc").replace("offset = 0", "offset = ?")])
def test_what_is_not_a_record_is_refused(damaged: str) -> None:
    with pytest.raises(ValueError, match="not a record"):
        parsed(damaged)


def test_producer_properties() -> None:
    made = settings_and_errors.producer(parse_settings({**BASE, "acks": "1", "retries": 0, "delivery_timeout_s": 1}))
    assert made["acks"] == "1"
    assert made["retries"] == "0"
    assert made["enable.idempotence"] == "false"
    assert int(made["delivery.timeout.ms"]) >= int(made["request.timeout.ms"])
    assert "transactional.id" not in made
    txn = settings_and_errors.producer(parse_settings({**BASE, "txn": True, "producer_config": {"linger.ms": 5}}))
    assert (txn["transactional.id"], txn["enable.idempotence"], txn["linger.ms"]) == ("r-3", "true", "5")


def test_the_new_group_protocol_has_no_session_of_the_client() -> None:
    classic = settings_and_errors.consumer(parse_settings(BASE))
    new = settings_and_errors.consumer(parse_settings({**BASE, "consumer_config": {"group.protocol": "consumer"}}))
    assert "session.timeout.ms" in classic
    assert "session.timeout.ms" not in new


@pytest.mark.parametrize("name", ["group.id", "transactional.id"])
def test_what_the_harness_sets_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        settings_and_errors.consumer(parse_settings({**BASE, "consumer_config": {name: "x"}}))


@pytest.mark.parametrize(
    ("code", "name", "retriable", "expected"),
    [
        ("NOT_LEADER_OR_FOLLOWER", "NotLeader", True, ("NOT_LEADER_FOR_PARTITION", "retriable")),
        ("REQUEST_TIMED_OUT", "TimeoutException", True, ("REQUEST_TIMED_OUT", "retriable")),
        ("PRODUCER_FENCED", "ProducerFencedException", False, ("PRODUCER_FENCED", "fatal")),
        ("GROUP_X", "GroupAuthorizationException", False, ("GROUP_X", "fatal")),
        ("INVALID_TXN_STATE", "InvalidTxnStateException", False, ("INVALID_TXN_STATE", "abortable")),
        (None, "KafkaException", False, ("_KafkaException", "abortable")),
        (None, "CommitFailedException", False, ("_CommitFailedException", "abortable")),
        (None, "IllegalStateException", False, ("_IllegalStateException", "plain")),
    ],
)
def test_errors(code: str | None, name: str, retriable: bool, expected: tuple[str, str]) -> None:
    found = settings_and_errors.error(code, name, "text", retriable)
    assert (found.code, found.kind) == expected


# --- when the JVM does not answer ---


class Partitions:
    def partitions(self) -> list[Any]:
        return []


class FakeJava:
    """A machine whose consumer raises what `raises` says of its calls, as py4j would: see `converted`."""

    def __init__(self, **raises: ClientError) -> None:
        self.raises, self.answer = raises, Partitions()
        self.KafkaConsumer = lambda properties: self

    def __getattr__(self, name: str) -> Any:
        if name in self.raises:
            raise _Raised(self.raises[name])
        return lambda *arguments: 7 if name == "position" else self.answer

    def converted(self, raised: Exception) -> ClientError:
        assert isinstance(raised, _Raised)
        return raised.error


class _Raised(Exception):
    def __init__(self, error: ClientError) -> None:
        self.error = error


DEAD = ClientError("_JVM", "the client's JVM has ended (-9)", "fatal")


def polling(**raises: ClientError) -> Batch:
    consumer = JavaConsumer(FakeJava(**raises), parse_settings(BASE))  # type: ignore[arg-type]
    consumer.assign({("r-0", 1): 0})
    return consumer.poll(0.0, 1)


class Unprintable:
    """Records that were polled, whose text takes more memory than there is."""

    def __init__(self, raised: Exception) -> None:
        self.raised = raised

    def partitions(self) -> list[Any]:
        return [object()]

    def records(self, partition: Any) -> Any:
        return self

    def toString(self) -> str:
        raise self.raised


@pytest.mark.parametrize("kind", ["plain", "retriable", "fatal"])
def test_what_was_polled_and_could_not_be_told_is_no_empty_poll(kind: Any) -> None:
    """Its position is beyond the records: it must not go on there."""
    java = FakeJava()
    java.answer = Unprintable(_Raised(ClientError("_KafkaException", "no", kind)))
    consumer = JavaConsumer(java, parse_settings(BASE))  # type: ignore[arg-type]
    consumer.assign({("r-0", 1): 0})
    with pytest.raises(ClientError) as raised:
        consumer.poll(0.0, 1)
    assert raised.value.kind == "fatal"


@pytest.mark.parametrize("how", ["allocate", "allocateDirect"])  # the heap's, and one that Java's own code throws
def test_a_jvm_out_of_memory_is_ended(how: str) -> None:
    if shutil.which("java") is None:
        absent("there is no java on the path")
    machine = Machine({"path": "java", "classpath": ""})
    try:
        with pytest.raises(Py4JError) as raised:
            getattr(machine._gateway.jvm.java.nio.ByteBuffer, how)(1 << 30)
        found = machine.converted(raised.value)
        assert (found.code, found.kind) == ("_JVM", "fatal")
        assert machine._process.wait(10) != 0
        assert outcome("poll", found, retries_off=True) == "info"
    finally:
        machine.kill()


def test_a_position_that_is_not_known_yet_is_left_out_and_nothing_else_is() -> None:
    assert polling().ends == {("r-0", 1): 7}
    assert polling(position=ClientError("REQUEST_TIMED_OUT", "late", "retriable")).ends == {}
    assert polling(position=ClientError("_IllegalStateException", "not assigned")).ends == {}
    for wrong in (DEAD, ClientError("TOPIC_AUTHORIZATION_FAILED", "no", "fatal")):
        with pytest.raises(ClientError) as raised:
            polling(position=wrong)
        assert raised.value is wrong


def test_a_rebalance_whose_jvm_has_died_is_not_an_empty_group() -> None:
    def assigned(**raises: ClientError) -> list[Any]:
        consumer = JavaConsumer(FakeJava(**raises), parse_settings(BASE))  # type: ignore[arg-type]
        events: list[Any] = []
        consumer._rebalanced = lambda *event: events.append(event)
        consumer._listener.events = [("assigned", [("r-0", 1)])]
        consumer.poll(0.0, 1)
        return events

    late = ClientError("REQUEST_TIMED_OUT", "late", "retriable")
    assert assigned(committed=late) == [("assigned", [("r-0", 1)], {})]
    with pytest.raises(ClientError, match="_JVM") as raised:
        assigned(committed=DEAD)
    assert raised.value.kind == "fatal"


def test_a_jvm_that_dies_while_it_is_asked_why_is_told_with_its_exit_code() -> None:
    machine = Machine.__new__(Machine)
    machine._process = type("Process", (), {"poll": lambda self: -9})()
    for raised in (
        ConnectionResetError("gone"),
        type("Thrown", (Exception,), {"java_exception": object()})(),
    ):
        found = machine.converted(raised)
        assert (found.code, found.kind) == ("_JVM", "fatal") and "ended (-9)" in found.text
    assert outcome("send", found, retries_off=True) == "info"  # it may have been sent before
