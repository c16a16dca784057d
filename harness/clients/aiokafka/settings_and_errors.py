"""Converts settings to options of aiokafka, and errors of aiokafka to ClientError.

aiokafka has a single timeout, `request_timeout_ms`, both for a broker's response and for the lifetime of a send, and no
limit on the number of retries. Without idempotence, a send is retried until that timeout. With idempotence, a send is
retried forever (aiokafka's producer.py and sender.py, 0.14).
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
_ADDRESS: Final = "it is the address of the run's cluster; omit it"
_OWNED: Final[Mapping[str, Mapping[str, str]]] = {
    "producer": {
        "bootstrap_servers": _ADDRESS,
        "acks": "use --acks",
        "enable_idempotence": "use --idempotence",
        "transactional_id": "use --txn; every process gets its own id",
    },
    "consumer": {
        "bootstrap_servers": _ADDRESS,
        "group_id": "every run has its own group; omit it",
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
    """Returns the ClientError for an exception that a call raised."""
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


def _common(settings: Settings) -> dict[str, Any]:
    request_timeout_s = settings.request_timeout_s or min(3.0, settings.patience_s / 3)
    return {
        "bootstrap_servers": settings.bootstrap,
        "client_id": f"{settings.run}-{settings.process}",
        "request_timeout_ms": max(1, int(request_timeout_s * 1000)),
    }


def producer(settings: Settings) -> dict[str, Any]:
    """Returns the arguments of AIOKafkaProducer. The user's options override those derived from the settings.

    Raises BadInput.
    """
    if settings.retries is not None:
        raise BadInput(f"--retries {settings.retries}: aiokafka has no such setting; omit it")
    config = _common(settings) | {
        "acks": "all" if settings.acks in ("all", "-1") else int(settings.acks),
        "linger_ms": 0,
        "enable_idempotence": settings.idempotence or settings.txn,
    }
    if settings.txn:
        config["transactional_id"] = settings.transactional_id or f"{settings.run}-{settings.process}"
        config["transaction_timeout_ms"] = int(settings.transaction_timeout_s * 1000)
    return config | _user_options("producer", aiokafka.AIOKafkaProducer, settings.producer_config)


def consumer(settings: Settings) -> dict[str, Any]:
    """Returns the arguments of AIOKafkaConsumer. The user's options override those derived from the settings.

    Raises BadInput.
    """
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    session_ms = int(settings.session_timeout_s * 1000)
    return (
        _common(settings)
        | {
            "group_id": settings.group_id,
            # JoinGroup waits for the other members, up to the session timeout; it has no timeout of its own.
            "request_timeout_ms": session_ms + JOIN_SLACK_MS,
            "isolation_level": settings.isolation_level,
            "auto_offset_reset": settings.auto_offset_reset,
            "enable_auto_commit": settings.auto_commit,
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "check_crcs": True,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": max(1, min(HEARTBEAT_MS, session_ms // 6)),
            # All members of a group must support a common one; range is the first in librdkafka and Java.
            "partition_assignment_strategy": (RangePartitionAssignor, RoundRobinPartitionAssignor),
        }
        | _user_options("consumer", aiokafka.AIOKafkaConsumer, settings.consumer_config)
    )


def _user_options(what: str, kind: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the user's options for producers or consumers (`what`), under aiokafka's names.

    The user may also write them as in Kafka (check.crcs). Raises BadInput for options that aiokafka does not have or
    the harness sets itself.
    """
    defaults = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    options = {}
    for user_name, value in config.items():
        name = user_name.replace(".", "_")
        if name in _OWNED[what]:
            raise BadInput(f"--{what}-config {user_name}: the harness sets this itself: {_OWNED[what][name]}")
        if name not in defaults:
            raise BadInput(f"--{what}-config {user_name}: aiokafka's {what} has no option {name}")
        options[name] = _value(f"--{what}-config {user_name}", value, defaults[name])
    return options


def _value(where: str, value: Any, default: Any) -> Any:
    """Returns a value converted to the type of the option's default, or to text if the default has no type.

    Raises BadInput.
    """
    text = str(value)
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise BadInput(f"{where}={text}: must be true or false")
        return text.lower() == "true"
    if isinstance(default, int):
        if not text.removeprefix("-").isdecimal():
            raise BadInput(f"{where}={text}: must be a whole number")
        return int(text)
    if default is None and text.isdecimal():
        return int(text)
    return text
