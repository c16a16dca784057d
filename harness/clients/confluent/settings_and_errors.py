"""Converts settings to properties of confluent-kafka (librdkafka), and errors of confluent-kafka to ClientError."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.settings import Settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError, Kind

MANUAL: Final = "https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"
PUSHES_METRICS: Final = 0x02050000  # first librdkafka with KIP-714
FETCH_WAIT_MS: Final = 100  # longest delay of a seek or of a newly assigned partition

# Properties that the harness sets and relies on, with what to use instead, including librdkafka's aliases
# (CONFIGURATION.md).
_ADDRESS: Final = "it is the address of the run's cluster; omit it"
_EVERY: Final = {"bootstrap.servers": _ADDRESS, "metadata.broker.list": _ADDRESS}
_OWNED: Final[Mapping[str, Mapping[str, str]]] = {
    "producer": {
        **_EVERY,
        "acks": "use --acks",
        "request.required.acks": "use --acks",
        "transactional.id": "use --txn; every process gets its own id",
    },
    "consumer": {
        **_EVERY,
        "group.id": "every run has its own group; omit it",
        "isolation.level": "use --isolation-level",
        "auto.offset.reset": "use --auto-offset-reset",
        "enable.auto.commit": "use --auto-commit",
        "enable.partition.eof": "polls need it enabled to detect the end of a log; omit it",
    },
}

_NO_SUCH: Final = re.compile(r'No such configuration property: "([^"]*)"')
# Names to suggest for a misspelt property.
_COMMON: Final = (
    "acks", "api.version.request", "auto.commit.interval.ms", "auto.offset.reset", "batch.num.messages", "batch.size",
    "check.crcs", "client.id", "client.rack", "compression.codec", "compression.level", "compression.type", "debug",
    "delivery.timeout.ms", "enable.auto.commit", "enable.auto.offset.store", "enable.idempotence", "fetch.max.bytes",
    "fetch.min.bytes", "fetch.wait.max.ms", "group.id", "group.instance.id", "group.protocol", "heartbeat.interval.ms",
    "isolation.level", "linger.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes",
    "max.poll.interval.ms", "message.max.bytes", "message.send.max.retries", "message.timeout.ms",
    "metadata.max.age.ms", "partition.assignment.strategy", "partitioner", "queue.buffering.max.kbytes",
    "queue.buffering.max.messages", "queue.buffering.max.ms", "queued.max.messages.kbytes", "queued.min.messages",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries", "retry.backoff.max.ms",
    "retry.backoff.ms", "sasl.mechanisms", "sasl.password", "sasl.username", "security.protocol", "session.timeout.ms",
    "socket.timeout.ms", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.key.location",
    "ssl.key.password", "statistics.interval.ms", "transactional.id", "transaction.timeout.ms",
)  # fmt: skip


def unknown_property(text: str) -> str:
    """Returns a hint for the user if a message of librdkafka says that a property does not exist; otherwise ""."""
    name = _NO_SUCH.search(text)
    if name is None:
        return ""
    close = difflib.get_close_matches(name[1], _COMMON, n=1)
    hint = f"did you mean {close[0]}? The" if close else "the"
    return f"librdkafka has no property {name[1]}; {hint} properties are listed in {MANUAL}"


def _user_properties(what: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the properties that the user set for producers or consumers (`what`).

    Raises BadInput for a property that the harness sets itself.
    """
    for name in config:
        if name in _OWNED[what]:
            raise BadInput(f"--{what}-config {name}: the harness sets this itself: {_OWNED[what][name]}")
    return dict(config)


def placed(topics: Mapping[str, Any], names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Returns the partitions of the named topics, or of all topics if `names` is None.

    topics  topic metadata of confluent-kafka

    The result has the form of `client_protocols.Admin.partitions`.
    """
    wanted = sorted(topics) if names is None else [name for name in names if name in topics]
    return [
        {
            "topic": name,
            "partition": number,
            "leader": partition.leader if partition.leader >= 0 else None,
            "replicas": list(partition.replicas),
            "isr": list(partition.isrs),
        }
        for name in wanted
        for number, partition in sorted(topics[name].partitions.items())
    ]


def converted(error: Any) -> ClientError:
    """Returns the ClientError for a KafkaException, a KafkaError, or the BufferError that a full queue raises."""
    kafka_error = error.args[0] if isinstance(error, ck.KafkaException) and error.args else error
    if not isinstance(kafka_error, ck.KafkaError):
        code = "_QUEUE_FULL" if isinstance(error, BufferError) else "_FAIL"
        return ClientError(code, str(error))
    kind: Kind = "plain"
    if kafka_error.fatal():
        kind = "fatal"
    elif kafka_error.txn_requires_abort():
        kind = "abortable"
    elif kafka_error.retriable():
        kind = "retriable"
    return ClientError(kafka_error.name(), kafka_error.str(), kind)


def common(settings: Settings) -> dict[str, Any]:
    request_timeout_s = settings.request_timeout_s or min(3.0, settings.patience_s / 3)
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": f"{settings.run}-{settings.process}",
        # Longer than the broker may take to answer a produce request, so that its response is not missed.
        "socket.timeout.ms": int(request_timeout_s * 1000) + 1000,
        "socket.connection.setup.timeout.ms": 3000,
        "reconnect.backoff.max.ms": 1000,
        "log.connection.close": False,
        **({"enable.metrics.push": False} if ck.libversion()[1] >= PUSHES_METRICS else {}),
        **settings.connection,
    }


def producer_config(settings: Settings) -> dict[str, Any]:
    """Returns the properties of a producer. The user's properties override those derived from the settings.

    Raises BadInput.
    """
    timeout_s = settings.delivery_timeout_s or max(0.1, settings.patience_s - 0.5)
    if settings.txn:
        timeout_s = min(timeout_s, settings.transaction_timeout_s)
    request_timeout_s = settings.request_timeout_s or min(3.0, settings.patience_s / 3)
    config = common(settings) | {
        "acks": settings.acks,
        "linger.ms": 0,
        "message.timeout.ms": max(1, int(timeout_s * 1000)),
        "request.timeout.ms": max(1, int(request_timeout_s * 1000)),
        "enable.idempotence": settings.idempotence or settings.txn,
    }
    if settings.retries is not None:
        config["message.send.max.retries"] = settings.retries
    if settings.txn:
        config["transactional.id"] = settings.transactional_id or f"{settings.run}-{settings.process}"
        config["transaction.timeout.ms"] = int(settings.transaction_timeout_s * 1000)
    return config | _user_properties("producer", settings.producer_config)


def consumer_config(settings: Settings) -> dict[str, Any]:
    """Returns the properties of a consumer. The user's properties override those derived from the settings.

    Raises BadInput.
    """
    session_ms = int(settings.session_timeout_s * 1000)
    # With the consumer protocol (KIP-848), brokers set the session timeout, and librdkafka rejects these properties.
    of_broker = str(settings.consumer_config.get("group.protocol", "classic")).lower() == "consumer"
    session = (
        {}
        if of_broker
        else {
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(1, min(3000, session_ms // 6)),
        }
    )
    return (
        common(settings)
        | session
        | {
            "group.id": settings.group_id,
            "isolation.level": settings.isolation_level,
            "auto.offset.reset": settings.auto_offset_reset,
            "enable.auto.commit": settings.auto_commit,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "queued.max.messages.kbytes": 16384,
        }
        | settings.of_rack
        | _user_properties("consumer", settings.consumer_config)
    )


def made_with(make: Callable[[dict[str, Any]], Any], config: dict[str, Any], what: str) -> Any:
    try:
        return make(config)
    except (ck.KafkaException, ValueError, TypeError) as error:
        text = converted(error).text
        unknown = unknown_property(text)
        why = f"--{what}-config: {unknown}" if unknown else f"{what} settings: {text}; see --{what}-config"
        raise BadInput(why) from None
