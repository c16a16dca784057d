"""Converts settings to properties of Kafka's Java client, and errors of the Java client to ClientError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clients.error_outcomes import RENAMED
from harness.clients.settings import Settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError, Kind

FETCH_WAIT_MS: Final = 100
MAX_BLOCK_MS: Final = 3000  # for send and for transactional calls, which the caller repeats
_SERDE: Final = "org.apache.kafka.common.serialization."

ASSIGNOR: Final = "partition.assignment.strategy"
# librdkafka's names, which plans use -> classes.
ASSIGNORS: Final[Mapping[str, str]] = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}

FATAL: Final = frozenset(
    [
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_EPOCH",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNSUPPORTED_VERSION",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "FENCED_INSTANCE_ID",
    ]
)
# Exceptions without a protocol error. The second is raised for a commit in an old generation.
ABORTABLE: Final = frozenset(["KafkaException", "CommitFailedException"])
OWNED: Final = frozenset(
    [
        "bootstrap.servers",
        "transactional.id",
        "group.id",
        "isolation.level",
        "auto.offset.reset",
        "enable.auto.commit",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
    ]
)


def properties(settings: Settings) -> dict[str, str]:
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": f"{settings.run}-{settings.process}",
        "reconnect.backoff.max.ms": "1000",
        "socket.connection.setup.timeout.ms": "3000",
    }


def _user_properties(what: str, config: Mapping[str, Any]) -> dict[str, str]:
    for name in config:
        if name in OWNED:
            raise BadInput(f"--{what}-config {name}: the harness sets this itself; omit it")
    user_properties = {name: str(value) for name, value in config.items()}
    if (assignor := user_properties.get(ASSIGNOR)) is not None:
        user_properties[ASSIGNOR] = ASSIGNORS.get(assignor, assignor)
    return user_properties


def producer(settings: Settings) -> dict[str, str]:
    """Returns the properties of a producer. The user's properties override those derived from the settings.

    Raises BadInput.
    """
    request_ms = int((settings.request_timeout_s or min(3.0, settings.patience_s / 3)) * 1000)
    delivery_ms = int((settings.delivery_timeout_s or max(0.1, settings.patience_s - 0.5)) * 1000)
    if settings.txn:
        delivery_ms = min(delivery_ms, int(settings.transaction_timeout_s * 1000))
    config = properties(settings) | {
        "acks": settings.acks,
        "linger.ms": "0",
        "request.timeout.ms": str(request_ms),
        "delivery.timeout.ms": str(max(delivery_ms, request_ms)),  # Kafka rejects less than the request timeout
        "max.block.ms": str(MAX_BLOCK_MS),
        "enable.idempotence": str(settings.idempotence or settings.txn).lower(),
        "key.serializer": _SERDE + "ByteArraySerializer",
        "value.serializer": _SERDE + "ByteArraySerializer",
    }
    if settings.retries is not None:
        config["retries"] = str(settings.retries)
    if settings.txn:
        config["transactional.id"] = settings.transactional_id or f"{settings.run}-{settings.process}"
        config["transaction.timeout.ms"] = str(int(settings.transaction_timeout_s * 1000))
    return config | _user_properties("producer", settings.producer_config)


def consumer(settings: Settings) -> dict[str, str]:
    """Returns the properties of a consumer. The user's properties override those derived from the settings.

    Keys are deserialized to text, and values to ISO 8859-1 text, one character per byte. Raises BadInput.
    """
    session_ms = int(settings.session_timeout_s * 1000)
    config = properties(settings) | {
        "group.id": settings.group_id,
        "isolation.level": settings.isolation_level,
        "auto.offset.reset": settings.auto_offset_reset,
        "enable.auto.commit": str(settings.auto_commit).lower(),
        "fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "max.poll.records": str(settings.records_max),
        "check.crcs": "true",
        "default.api.timeout.ms": "3000",
        "request.timeout.ms": "3000",
        "key.deserializer": _SERDE + "StringDeserializer",
        "value.deserializer": _SERDE + "StringDeserializer",
        "value.deserializer.encoding": "ISO-8859-1",
        **settings.of_rack,
    }
    user_properties = _user_properties("consumer", settings.consumer_config)
    if user_properties.get("group.protocol", "classic").lower() == "classic":  # otherwise brokers set them (KIP-848)
        config["session.timeout.ms"] = str(session_ms)
        config["heartbeat.interval.ms"] = str(max(1, min(3000, session_ms // 6)))
    return config | user_properties


def kind_of(code: str, name: str, retriable: bool) -> Kind:
    """Returns the kind of a protocol error: fatal, retriable or abortable.

    An error that is neither fatal nor retriable is abortable, as KafkaProducer documents for KafkaException.
    """
    if code in FATAL or name.endswith("AuthorizationException"):
        return "fatal"
    return "retriable" if retriable else "abortable"


def error(code: str | None, name: str, message: str, retriable: bool) -> ClientError:
    """Returns the ClientError for a Java exception.

    code  name of the exception's protocol error; None if it has none
    name  class of the exception, used if `code` is None
    """
    if code is None:
        return ClientError(f"_{name}", message, "abortable" if name in ABORTABLE else "plain")
    return ClientError(RENAMED.get(code, code), f"{name}: {message}", kind_of(code, name, retriable))
