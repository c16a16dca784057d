"""Converts a client's settings to fields of the requests that a client program receives. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clients.client_protocols import BEGINNING, END, STORED
from harness.clients.settings import Settings
from harness.protocol.error_codes import TopicPartition

LOGICAL: Final[Mapping[int, str]] = {BEGINNING: "earliest", END: "latest", STORED: "committed"}
# Settings of consumers that have a field of their own.
GROUP_PROTOCOL: Final = "group.protocol"
ASSIGNOR: Final = "partition.assignment.strategy"
# librdkafka's names of properties for which Kafka's documentation has others.
RENAMED: Final[Mapping[str, str]] = {"sasl.mechanisms": "sasl.mechanism"}
SECRET: Final = ("password", "secret", "token", "key.pem")


def producer(made: Settings) -> dict[str, Any]:
    """Returns the fields of the request `open` for a producer."""
    delivery_s = made.delivery_timeout_s or max(0.1, made.patience_s - 0.5)
    transactional_id = made.transactional_id or f"{made.run}-{made.process}"
    return {
        **_both(made, "producer", made.producer_config),
        "acks": made.acks,
        "idempotence": made.idempotence or made.txn,
        "retries": made.retries,
        "delivery_timeout_ms": int(1000 * (min(delivery_s, made.transaction_timeout_s) if made.txn else delivery_s)),
        "transactional_id": transactional_id if made.txn else None,
        "transaction_timeout_ms": int(1000 * made.transaction_timeout_s),
    }


def consumer(made: Settings) -> dict[str, Any]:
    """Returns the fields of the request `open` for a consumer."""
    own = {name: value for name, value in made.consumer_config.items() if name not in (GROUP_PROTOCOL, ASSIGNOR)}
    return {
        **_both(made, "consumer", own),
        "group": made.group_id,
        "group_protocol": str(made.consumer_config.get(GROUP_PROTOCOL, "classic")).lower(),
        "assignor": made.consumer_config.get(ASSIGNOR),
        "isolation_level": made.isolation_level,
        "auto_offset_reset": made.auto_offset_reset,
        "auto_commit": made.auto_commit,
        "session_timeout_ms": int(1000 * made.session_timeout_s),
    }


def _both(made: Settings, role: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    request_s = made.request_timeout_s or min(3.0, made.patience_s / 3)
    return {
        "role": role,
        "bootstrap": made.bootstrap,
        "client_id": f"{made.run}-{made.process}",
        "security": {RENAMED.get(name, name): value for name, value in made.connection.items()},
        "properties": dict(properties),
        "request_timeout_ms": int(1000 * request_s),
    }


def secrets(made: Settings) -> list[str]:
    """Returns the secret values in the connection settings, which must not appear in any log."""
    return [str(value) for name, value in made.connection.items() if any(word in name for word in SECRET)]


def positions(offsets: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    """Converts partition -> offset to a list of objects. Logical offsets become names, such as "earliest"."""
    return [
        {"topic": topic, "partition": partition, "offset": LOGICAL.get(offset, offset)}
        for (topic, partition), offset in offsets.items()
    ]
