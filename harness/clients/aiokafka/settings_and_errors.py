"""Converts settings to options of aiokafka, and its errors to ClientError.

aiokafka has one timeout, `request_timeout_ms`, both for a broker's response and for the lifetime of a send, and no
limit on the number of retries. Without idempotence, a send is retried until that timeout, with it forever (its
producer.py and sender.py, 0.14).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import aiokafka
from aiokafka import errors

from harness.clients.error_outcomes import RENAMED
from harness.clients.settings import Settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError, Kind

FETCH_WAIT_MS: Final = 100
HEARTBEAT_MS: Final = 3000
JOIN_SLACK_MS: Final = 5000  # beyond the rebalance timeout, as in the Java client
_ADDRESS: Final = "it is the address of the run's cluster; leave it out"
_OWNED: Final[Mapping[str, Mapping[str, str]]] = {
    "producer": {
        "bootstrap_servers": _ADDRESS,
        "acks": "use --acks",
        "enable_idempotence": "use --idempotence",
        "transactional_id": "use --txn; every process gets its own id",
    },
    "consumer": {
        "bootstrap_servers": _ADDRESS,
        "group_id": "every run has its own group; leave it out",
        "isolation_level": "use --isolation-level",
        "auto_offset_reset": "use --auto-offset-reset",
        "enable_auto_commit": "use --auto-commit",
    },
}
# Codes of errors that have no error code in the protocol, by class.
_OWN: Final[Mapping[type, str]] = {
    errors.KafkaConnectionError: "_TRANSPORT",
    errors.KafkaTimeoutError: "_TIMED_OUT",
    errors.ProducerFenced: "_FENCED",
    errors.ProducerClosed: "_STATE",
    errors.IllegalOperation: "_STATE",
    errors.IllegalStateError: "_STATE",
    AssertionError: "_STATE",  # a call that is invalid in the transaction's state
}
_FATAL: Final = (
    errors.ProducerFenced,
    errors.ProducerClosed,
    errors.OutOfOrderSequenceNumber,
    errors.InvalidProducerEpoch,
    errors.InvalidProducerIdMapping,
    errors.UnknownProducerId,
    errors.InvalidTxnState,
    errors.TransactionalIdAuthorizationFailed,
    AssertionError,
)
_ABORTABLE: Final = (errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError)


def converted(raised: BaseException) -> ClientError:
    """Return the ClientError for what a call raised."""
    if isinstance(raised, ClientError):
        return raised
    name = type(raised).__name__
    text = str(raised).removeprefix(f"{name}: ") or name
    if isinstance(raised, errors.BrokerResponseError):
        message = str(getattr(raised, "message", name))
        code = RENAMED.get(message, message)
    else:
        own_code = next((code for kind, code in _OWN.items() if isinstance(raised, kind)), None)
        code = own_code or f"_{name}"
    return ClientError(code, text, _kind(raised))


def _kind(raised: BaseException) -> Kind:
    if isinstance(raised, _FATAL) or type(raised) is errors.KafkaError:  # a plain one: the sender task has died
        return "fatal"
    if isinstance(raised, _ABORTABLE):
        return "abortable"
    return "retriable" if getattr(raised, "retriable", False) else "plain"


def _common(made: Settings) -> dict[str, Any]:
    request_timeout_s = made.request_timeout_s or min(3.0, made.patience_s / 3)
    return {
        "bootstrap_servers": made.bootstrap,
        "client_id": f"{made.run}-{made.process}",
        "request_timeout_ms": max(1, int(request_timeout_s * 1000)),
    }


def producer(made: Settings) -> dict[str, Any]:
    """Return the arguments of AIOKafkaProducer. The user's options override the others. Raises BadInput."""
    if made.retries is not None:
        raise BadInput(f"--retries {made.retries}: aiokafka has no such setting; leave it out")
    config = _common(made) | {
        "acks": "all" if made.acks in ("all", "-1") else int(made.acks),
        "linger_ms": 0,
        "enable_idempotence": made.idempotence or made.txn,
    }
    if made.txn:
        config["transactional_id"] = made.transactional_id or f"{made.run}-{made.process}"
        config["transaction_timeout_ms"] = int(made.transaction_timeout_s * 1000)
    return config | _user_options("producer", aiokafka.AIOKafkaProducer, made.producer_config)


def consumer(made: Settings) -> dict[str, Any]:
    """Return the arguments of AIOKafkaConsumer. The user's options override the others. Raises BadInput."""
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    session_ms = int(made.session_timeout_s * 1000)
    return (
        _common(made)
        | {
            "group_id": made.group_id,
            # JoinGroup waits for the other members, up to the session timeout; it has no timeout of its own.
            "request_timeout_ms": session_ms + JOIN_SLACK_MS,
            "isolation_level": made.isolation_level,
            "auto_offset_reset": made.auto_offset_reset,
            "enable_auto_commit": made.auto_commit,
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "check_crcs": True,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": max(1, min(HEARTBEAT_MS, session_ms // 6)),
            # All members of a group must support a common one; range is the first in librdkafka and Java.
            "partition_assignment_strategy": (RangePartitionAssignor, RoundRobinPartitionAssignor),
        }
        | _user_options("consumer", aiokafka.AIOKafkaConsumer, made.consumer_config)
    )


def _user_options(what: str, kind: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's options, whose names may be Kafka's (check.crcs) or aiokafka's (check_crcs)."""
    known = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    options = {}
    for given, value in config.items():
        name = given.replace(".", "_")
        if name in _OWNED[what]:
            raise BadInput(f"--{what}-config {given}: the harness sets this itself: {_OWNED[what][name]}")
        if name not in known:
            raise BadInput(f"--{what}-config {given}: aiokafka's {what} has no option {name}")
        options[name] = _value(f"--{what}-config {given}", value, known[name])
    return options


def _value(where: str, given: Any, default: Any) -> Any:
    """Return a value converted to the type of the option's default; as text if the default has no type."""
    text = str(given)
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise BadInput(f"{where}={text}: give true or false")
        return text.lower() == "true"
    if isinstance(default, int):
        if not text.removeprefix("-").isdecimal():
            raise BadInput(f"{where}={text}: give a whole number")
        return int(text)
    if default is None and text.isdecimal():
        return int(text)
    return text
