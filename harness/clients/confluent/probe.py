"""A first look at a cluster that others run: who is there, whether we may, and if not, why.

A metadata request says only that it failed. Why it did, librdkafka tells its error callback, so that is
listened to. Every question has a deadline.
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

DOWN_S: Final = 6.0  # when every address refuses, it is not worth while to wait longer
TRY_S: Final = 0.5
# What another try does not mend, the most telling first.
_HOPELESS: Final = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "UNSUPPORTED_SASL_MECHANISM")
_DOWN: Final = "_ALL_BROKERS_DOWN"


@dataclass(frozen=True, slots=True)
class Seen:
    """brokers: "host:port" by id; settings: of the brokers, as far as we may ask, by name."""

    brokers: Mapping[int, str]
    settings: Mapping[str, str]


class Probe:
    """One admin client that remembers what went wrong. Raises ClientError."""

    def __init__(self, bootstrap: str, connection: Mapping[str, str]) -> None:
        self._errors: dict[str, str] = {}
        config = {
            "bootstrap.servers": bootstrap,
            "client.id": "harness",
            "log_level": 0,  # the callback hears the same
            "socket.timeout.ms": 5000,
            "socket.connection.setup.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 500,
            "enable.metrics.push": False,
            "error_cb": self._heard,
            **connection,
        }
        try:
            self._admin: Any = AdminClient(config)
        except (ck.KafkaException, ValueError, TypeError) as error:
            raise ClientError("_INVALID_ARG", converted(error).text) from None

    def _heard(self, error: Any) -> None:
        self._errors[error.name()] = error.str()

    def _why(self) -> ClientError | None:
        """What is behind the failure, if it was heard."""
        rest = [code for code in self._errors if code != _DOWN]
        for code in (*_HOPELESS, *rest, _DOWN):
            if code in self._errors:
                return ClientError(code, self._errors[code])
        return None

    def brokers(self, within_s: float) -> dict[int, str]:
        """Who is there. Raises ClientError with the reason that the library has heard."""
        began = time.monotonic()
        while True:
            try:
                brokers = self._admin.list_topics(timeout=TRY_S).brokers
                return {number: f"{at.host}:{at.port}" for number, at in sorted(brokers.items())}
            except ck.KafkaException as error:
                failed = converted(error)
            self._admin.poll(0)
            spent_s = time.monotonic() - began
            hopeless = any(code in self._errors for code in _HOPELESS)
            if hopeless or spent_s > (min(DOWN_S, within_s) if _DOWN in self._errors else within_s):
                raise self._why() or failed
            time.sleep(0.05)

    def settings(self, broker: int, names: Sequence[str], within_s: float) -> dict[str, str]:
        """Settings of a broker; those that it does not tell us are left out."""
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
        """Have a topic checked that is not made. Raises ClientError with the broker's reason."""
        topic = NewTopic(name, partitions, replication, config=dict(config))
        futures = self._admin.create_topics([topic], validate_only=True, request_timeout=within_s)
        try:
            futures[name].result(timeout=within_s + 1.0)
        except ck.KafkaException as error:
            failed = converted(error)
            self._admin.poll(0)
            raise (self._why() or failed if failed.code.startswith("_") else failed) from None
        except FutureTimeout:
            raise self._why() or ClientError("_TIMED_OUT", f"no answer in {within_s:.0f} s") from None


def look(bootstrap: str, connection: Mapping[str, str], names: Sequence[str], within_s: float) -> Seen:
    """Who is there, and what they say of some of their settings. Raises ClientError."""
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
    """Have the cluster say whether it would make such a topic. Raises ClientError."""
    Probe(bootstrap, connection).try_topic(name, partitions, replication, config, within_s)
