"""Properties and errors of Kafka's own Java client: settings in, ClientError out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clients.error_outcomes import RENAMED
from harness.clients.settings import Settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError, Kind

FETCH_WAIT_MS: Final = 100
MAX_BLOCK_MS: Final = 3000  # of send and of transactional calls, which the caller repeats
_SERDE: Final = "org.apache.kafka.common.serialization."

ASSIGNOR: Final = "partition.assignment.strategy"
# librdkafka's names, which plans use.
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
# Without an error of the protocol. The second is of a commit in another generation; its transaction fails.
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


def properties(made: Settings) -> dict[str, str]:
    return {
        "bootstrap.servers": made.bootstrap,
        "client.id": f"{made.run}-{made.process}",
        "reconnect.backoff.max.ms": "1000",
        "socket.connection.setup.timeout.ms": "3000",
    }


def _given(what: str, config: Mapping[str, Any]) -> dict[str, str]:
    for name in config:
        if name in OWNED:
            raise BadInput(f"--{what}-config {name}: the harness sets this itself; leave it out")
    given = {name: str(value) for name, value in config.items()}
    if (assignor := given.get(ASSIGNOR)) is not None:
        given[ASSIGNOR] = ASSIGNORS.get(assignor, assignor)
    return given


def producer(made: Settings) -> dict[str, str]:
    """The producer's properties; the user's own come last and win. Raises BadInput."""
    request_ms = int((made.request_timeout_s or min(3.0, made.patience_s / 3)) * 1000)
    delivery_ms = int((made.delivery_timeout_s or max(0.1, made.patience_s - 0.5)) * 1000)
    if made.txn:
        delivery_ms = min(delivery_ms, int(made.transaction_timeout_s * 1000))
    config = properties(made) | {
        "acks": made.acks,
        "linger.ms": "0",
        "request.timeout.ms": str(request_ms),
        "delivery.timeout.ms": str(max(delivery_ms, request_ms)),  # it may not be less
        "max.block.ms": str(MAX_BLOCK_MS),
        "enable.idempotence": str(made.idempotence or made.txn).lower(),
        "key.serializer": _SERDE + "ByteArraySerializer",
        "value.serializer": _SERDE + "ByteArraySerializer",
    }
    if made.retries is not None:
        config["retries"] = str(made.retries)
    if made.txn:
        config["transactional.id"] = made.transactional_id or f"{made.run}-{made.process}"
        config["transaction.timeout.ms"] = str(int(made.transaction_timeout_s * 1000))
    return config | _given("producer", made.producer_config)


def consumer(made: Settings) -> dict[str, str]:
    """The consumer's properties; the user's own come last and win. Raises BadInput.

    Keys come as text, and values as text in ISO 8859-1, a character for each byte.
    """
    session_ms = int(made.session_timeout_s * 1000)
    config = properties(made) | {
        "group.id": made.group_id,
        "isolation.level": made.isolation_level,
        "auto.offset.reset": made.auto_offset_reset,
        "enable.auto.commit": str(made.auto_commit).lower(),
        "fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "max.poll.records": str(made.records_max),
        "check.crcs": "true",
        "default.api.timeout.ms": "3000",
        "request.timeout.ms": "3000",
        "key.deserializer": _SERDE + "StringDeserializer",
        "value.deserializer": _SERDE + "StringDeserializer",
        "value.deserializer.encoding": "ISO-8859-1",
    }
    given = _given("consumer", made.consumer_config)
    if given.get("group.protocol", "classic").lower() == "classic":  # KIP-848: else the broker's to say
        config["session.timeout.ms"] = str(session_ms)
        config["heartbeat.interval.ms"] = str(max(1, min(3000, session_ms // 6)))
    return config | given


def kind_of(code: str, name: str, retriable: bool) -> Kind:
    """What may be done about an error of the protocol. What is neither fatal nor retriable aborts the
    transaction, as the client's own documentation of KafkaProducer says of KafkaException."""
    if code in FATAL or name.endswith("AuthorizationException"):
        return "fatal"
    return "retriable" if retriable else "abortable"


def error(code: str | None, name: str, message: str, retriable: bool) -> ClientError:
    """A ClientError of a Java exception: its class, and the protocol's error where it has one."""
    if code is None:
        return ClientError(f"_{name}", message, "abortable" if name in ABORTABLE else "plain")
    return ClientError(RENAMED.get(code, code), f"{name}: {message}", kind_of(code, name, retriable))
