"""The confluent adapter without a broker: properties, errors, refusals. See also tests/e2e."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from harness.clients.client_protocols import Record
from harness.clients.confluent.adapter import Confluent, ConfluentConsumer, ConfluentProducer, open_admin
from harness.clients.confluent.admin import ConfluentAdmin
from harness.clients.confluent.settings_and_errors import consumer_config, converted, producer_config
from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.make_plan import make
from harness.protocol.error_codes import ClientError
from harness.run import start_workers


def made(**given: Any) -> Settings:
    return parse_settings({"bootstrap": "127.0.0.1:1", "run": "r", "process": 3, **given})


def test_a_plain_producer() -> None:
    config = producer_config(made(acks=1, delivery_timeout_s=2, request_timeout_s=0.5))
    assert config["acks"] == "1" and config["linger.ms"] == 0
    assert config["message.timeout.ms"] == 2000 and config["request.timeout.ms"] == 500
    assert config["socket.timeout.ms"] > config["request.timeout.ms"]
    assert config["enable.idempotence"] is False
    assert "transactional.id" not in config and "message.send.max.retries" not in config


def test_retries_are_passed_on_only_when_given() -> None:
    assert producer_config(made(retries=0))["message.send.max.retries"] == 0


def test_a_transactional_producer_is_idempotent_and_times_out_within_its_transaction() -> None:
    config = producer_config(made(txn=True, op_timeout_s=60))
    assert config["transactional.id"] == "r-3" and config["enable.idempotence"] is True
    assert config["message.timeout.ms"] <= config["transaction.timeout.ms"] == 10_000
    assert producer_config(made(txn=True, transactional_id="mine"))["transactional.id"] == "mine"


def test_a_consumer() -> None:
    config = consumer_config(made(isolation_level="read_uncommitted", auto_offset_reset="latest"))
    assert config["group.id"] == "r-group" and config["isolation.level"] == "read_uncommitted"
    assert config["auto.offset.reset"] == "latest" and config["enable.auto.commit"] is False
    assert config["enable.partition.eof"] is True and config["check.crcs"] is True


def test_the_users_properties_win() -> None:
    assert producer_config(made(producer_config={"linger.ms": 5}))["linger.ms"] == 5
    assert consumer_config(made(consumer_config={"check.crcs": False}))["check.crcs"] is False


def test_kinds_of_errors() -> None:
    def kind(**flags: bool) -> str:
        return converted(ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT, "late", **flags))).kind

    assert kind() == "plain"
    assert kind(retriable=True) == "retriable"
    assert kind(txn_requires_abort=True) == "abortable"
    assert kind(fatal=True) == "fatal"
    full = converted(BufferError("Local: Queue full"))
    assert (full.code, full.kind) == ("_QUEUE_FULL", "plain")


def test_the_admin_role_says_what_the_library_has_against_the_settings() -> None:
    config = {"bootstrap": "127.0.0.1:1", "run": "r"}
    assert open_admin(config).problem() == ""
    assert "no.such" in open_admin(config | {"producer_config": {"no.such": 1}}).problem()
    assert "acks" in open_admin(config | {"txn": True, "acks": 1}).problem()


def test_properties_that_the_library_refuses_are_bad_input() -> None:
    with pytest.raises(BadInput, match=r"producer settings: Invalid value .*; see --producer-config"):
        Confluent().producer(made(producer_config={"linger.ms": "soon"}))
    with pytest.raises(BadInput, match=r"--producer-config: librdkafka has no property lingr\.ms; did you mean linger"):
        Confluent().producer(made(producer_config={"lingr.ms": 1}))
    with pytest.raises(BadInput, match=r"--consumer-config: librdkafka has no property no\.such; the properties"):
        Confluent().consumer(made(consumer_config={"no.such": 1}))


def test_properties_are_checked_before_anything_starts(capfd: pytest.CaptureFixture[str]) -> None:
    start_workers.refuse_properties(make({"seed": 1, "producer_config": {"linger.ms": "5"}}))
    with pytest.raises(BadInput, match=r"no property lingr\.ms"):
        start_workers.refuse_properties(make({"seed": 1, "producer_config": {"lingr.ms": "5"}}))
    assert capfd.readouterr() == ("", "")


OWNED = [
    ("producer_config", "acks", "--acks"),
    ("producer_config", "request.required.acks", "--acks"),
    ("producer_config", "transactional.id", "--txn"),
    ("producer_config", "bootstrap.servers", "omit it"),
    ("consumer_config", "metadata.broker.list", "omit it"),
    ("consumer_config", "group.id", "omit it"),
    ("consumer_config", "isolation.level", "--isolation-level"),
    ("consumer_config", "auto.offset.reset", "--auto-offset-reset"),
    ("consumer_config", "enable.auto.commit", "--auto-commit"),
    ("consumer_config", "enable.partition.eof", "omit it"),
]


@pytest.mark.parametrize(("where", "name", "instead"), OWNED)
def test_properties_that_the_harness_owns_are_a_problem(where: str, name: str, instead: str) -> None:
    given = {"bootstrap": "127.0.0.1:1", "run": "r", where: {"client.rack": "a", name: "1"}}
    problem = open_admin(given).problem()
    assert f"--{where.replace('_', '-')} {name}:" in problem and instead in problem


def test_idempotence_may_be_set_as_a_property() -> None:
    given = {"bootstrap": "127.0.0.1:1", "run": "r", "producer_config": {"enable.idempotence": "true"}}
    assert open_admin(given).problem() == ""


class Message:
    """What the library returns from a poll: a record, or an event with an error."""

    def __init__(self, offset: int | None, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def topic(self) -> str:
        return "r-0"

    def partition(self) -> int:
        return 1

    def offset(self) -> int | None:
        return self._offset

    def value(self) -> bytes:
        return b"v"

    def error(self) -> ck.KafkaError | None:
        return None if self._code is None else ck.KafkaError(self._code)


@pytest.mark.parametrize(("given", "kept"), [(None, None), (-1001, None), (0, 0), (7, 7)])
def test_a_report_without_an_offset_is_a_success(given: int | None, kept: int | None) -> None:
    class Reporting:
        def produce(self, *_: Any, on_delivery: Callable[[Any, Any], None], **__: Any) -> None:
            on_delivery(None, Message(given))

    producer = ConfluentProducer(made())
    producer._producer = Reporting()
    delivery = producer.send(("r-0", 1), b"v")
    assert delivery.acknowledged and delivery.offset == kept


class Scripted:
    """A consumer of the library whose calls return or raise the next item of a script."""

    def __init__(self, *script: Any) -> None:
        self._script = list(script)

    def poll(self, timeout_s: float) -> Any:
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def consume(self, count: int, timeout_s: float) -> Any:
        return self.poll(timeout_s)


def scripted(*script: Any) -> ConfluentConsumer:
    consumer = ConfluentConsumer(made())
    consumer._consumer = Scripted(*script)
    return consumer


TROUBLE = [ck.KafkaException(ck.KafkaError(ck.KafkaError._FAIL, "no")), RuntimeError("Consumer closed")]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_record_taken_before_trouble_is_in_the_batch(trouble: Exception) -> None:
    batch = scripted([], Message(5), trouble).poll(1.0, 10)
    assert batch.records == [Record("r-0", 1, 5, b"v")]
    assert [(error.code, error.kind) for error in batch.errors] == [("_FAIL", "fatal")]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_an_end_taken_before_trouble_is_in_the_batch(trouble: Exception) -> None:
    batch = scripted([Message(6, ck.KafkaError._PARTITION_EOF)], trouble).poll(1.0, 10)
    assert batch.records == [] and batch.ends == {("r-0", 1): 6}
    assert [error.kind for error in batch.errors] == ["fatal"]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_before_anything_is_taken_is_raised(trouble: Exception) -> None:
    with pytest.raises(ClientError, match="_FAIL"):
        scripted([], trouble).poll(1.0, 10)


def test_a_poll_goes_on_beyond_events_until_a_record_comes() -> None:
    end = Message(5, ck.KafkaError._PARTITION_EOF)
    batch = scripted([], None, end, [], Message(5), [Message(6)]).poll(5.0, 10)
    assert [record.offset for record in batch.records] == [5, 6] and batch.ends == {("r-0", 1): 5}


class _Silent:
    """An AdminClient whose requests get no response, as librdkafka reports it: no error, no offset."""

    def list_offsets(self, wanted: dict[Any, Any], **options: Any) -> dict[Any, Any]:
        return self._of(wanted, offset=ck.OFFSET_INVALID)

    def delete_records(self, wanted: list[Any], **options: Any) -> dict[Any, Any]:
        return self._of(wanted, low_watermark=ck.OFFSET_INVALID)

    def _of(self, wanted: Iterable[Any], **answer: int) -> dict[Any, Any]:
        futures = {}
        for place in wanted:
            futures[place] = Future[Any]()
            futures[place].set_result(SimpleNamespace(**answer))
        return futures


def test_offsets_that_were_not_answered_are_none() -> None:
    admin = ConfluentAdmin({"bootstrap.servers": "127.0.0.1:1"})
    admin._admin = _Silent()
    for ask in (
        lambda: admin.offsets([("r-0", 0)], "read_committed", 0.1),
        lambda: admin.delete_records({("r-0", 0): 5}, 0.1),
    ):
        with pytest.raises(ClientError, match="no answer") as raised:
            ask()
        assert raised.value.code == "_TIMED_OUT"
