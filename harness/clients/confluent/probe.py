"""Probes an external cluster: its brokers, their settings, and whether the harness is authorized.

librdkafka does not say why a metadata request failed. It reports the reason to its error callback instead, so the probe
records the errors that the callback receives. Every request has a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from harness.clients.confluent.settings_and_errors import converted
from harness.protocol.error_codes import ClientError

DOWN_S: Final = 6.0  # longest wait while all brokers refuse connections
TRY_S: Final = 0.5
# Errors that retries do not fix, the most specific first.
_PERMANENT: Final = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "UNSUPPORTED_SASL_MECHANISM")
_DOWN: Final = "_ALL_BROKERS_DOWN"


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a probe.

    brokers   id -> "host:port"
    settings  name -> value, for one broker's settings; empty if the client is not allowed to read settings
    """

    brokers: Mapping[int, str]
    settings: Mapping[str, str]


class Probe:
    """An admin client that remembers the errors reported to its error callback. Its methods raise ClientError."""

    def __init__(self, bootstrap: str, connection: Mapping[str, str]) -> None:
        self._errors: dict[str, str] = {}
        config = {
            "bootstrap.servers": bootstrap,
            "client.id": "harness",
            "log_level": 0,  # the callback gets the same errors
            "socket.timeout.ms": 5000,
            "socket.connection.setup.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 500,
            "enable.metrics.push": False,
            "error_cb": self._on_error,
            **connection,
        }
        try:
            self._admin: Any = AdminClient(config)
        except (ck.KafkaException, ValueError, TypeError) as error:
            raise ClientError("_INVALID_ARG", converted(error).text) from None

    def _on_error(self, error: Any) -> None:
        self._errors[error.name()] = error.str()

    def _cause(self) -> ClientError | None:
        """Returns the most specific of the errors reported to the error callback. Returns None if there are none."""
        rest = [code for code in self._errors if code != _DOWN]
        for code in (*_PERMANENT, *rest, _DOWN):
            if code in self._errors:
                return ClientError(code, self._errors[code])
        return None

    def brokers(self, within_s: float) -> dict[int, str]:
        """Returns id -> "host:port" of all brokers. Raises ClientError with the reason that librdkafka reported."""
        began = time.monotonic()
        while True:
            try:
                brokers = self._admin.list_topics(timeout=TRY_S).brokers
                return {number: f"{at.host}:{at.port}" for number, at in sorted(brokers.items())}
            except ck.KafkaException as error:
                failed = converted(error)
            self._admin.poll(0)
            spent_s = time.monotonic() - began
            permanent = any(code in self._errors for code in _PERMANENT)
            if permanent or spent_s > (min(DOWN_S, within_s) if _DOWN in self._errors else within_s):
                raise self._cause() or failed
            time.sleep(0.05)

    def settings(self, broker: int, names: Sequence[str], within_s: float) -> dict[str, str]:
        """Returns name -> value, for the named settings of a broker. Omits settings that the broker does not report."""
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
        future = next(iter(self._admin.describe_configs([resource], request_timeout=within_s).values()))
        try:
            answer = future.result(timeout=within_s + 1.0)
        except (ck.KafkaException, FutureTimeout):
            return {}
        return {name: answer[name].value for name in names if name in answer and answer[name].value}

    def try_topic(
        self, name: str, partitions: int, replication: int, config: Mapping[str, str], within_s: float
    ) -> None:
        """Asks the broker to validate a topic without creating it. Raises ClientError with the broker's reason."""
        topic = NewTopic(name, partitions, replication, config=dict(config))
        futures = self._admin.create_topics([topic], validate_only=True, request_timeout=within_s)
        try:
            futures[name].result(timeout=within_s + 1.0)
        except ck.KafkaException as error:
            failed = converted(error)
            self._admin.poll(0)
            raise (self._cause() or failed if failed.code.startswith("_") else failed) from None
        except FutureTimeout:
            raise self._cause() or ClientError("_TIMED_OUT", f"no answer within {within_s:.0f} s") from None


def look(bootstrap: str, connection: Mapping[str, str], names: Sequence[str], within_s: float) -> Seen:
    """Returns the brokers of a cluster, and the settings of the broker with the lowest id. Raises ClientError."""
    probe = Probe(bootstrap, connection)
    brokers = probe.brokers(within_s)
    return Seen(brokers, probe.settings(min(brokers), names, within_s) if brokers else {})


def try_topic(
    bootstrap: str,
    connection: Mapping[str, str],
    name: str,
    partitions: int,
    replication: int,
    config: Mapping[str, str],
    within_s: float,
) -> None:
    """Checks whether the cluster would create a topic with these properties, without creating it.

    Raises ClientError with the broker's reason if the cluster would refuse the topic.
    """
    Probe(bootstrap, connection).try_topic(name, partitions, replication, config, within_s)
