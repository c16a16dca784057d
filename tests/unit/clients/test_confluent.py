"""The confluent adapter where it needs no broker: properties, errors, refusals. See also tests/e2e."""

from __future__ import annotations

from typing import Any

import confluent_kafka as ck
import pytest

from harness.clients.confluent import Confluent, open_admin
from harness.clients.confluent_config import consumer_config, converted, producer_config
from harness.clients.settings import Settings, settings
from harness.model.errors import BadInput


def made(**given: Any) -> Settings:
    return settings({"bootstrap": "127.0.0.1:1", "run": "r", "process": 3, **given})


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


@pytest.mark.parametrize("config", [{"no.such.property": 1}, {"linger.ms": "soon"}])
def test_properties_that_the_library_refuses_are_bad_input(config: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="producer settings"):
        Confluent().producer(made(producer_config=config))
    with pytest.raises(BadInput, match="consumer settings"):
        Confluent().consumer(made(consumer_config={"no.such.property": 1}))
