"""Changes to a running cluster with confluent-kafka's AdminClient: elections, partitions, settings.

The parameter `admin` is confluent-kafka's AdminClient. All functions raise ClientError.
"""

from __future__ import annotations

import base64
import contextlib
import struct
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from harness.clients.confluent.settings_and_errors import converted
from harness.protocol import admin_requests, features, update_features
from harness.protocol.error_codes import ClientError, TopicPartition

SLACK_S: Final = 1.0  # how much longer than the request's timeout a future is awaited
_NOT_CONTROLLER: Final = 41
_AGAIN_S: Final = 0.2


def _result(future: Future[Any], deadline: float, what: str) -> Any:
    try:
        return future.result(timeout=max(0.0, deadline - time.monotonic()))
    except ck.KafkaException as error:
        raise converted(error) from None
    except FutureTimeout:
        raise ClientError("_TIMED_OUT", f"{what}: no answer in time") from None


def elect(
    admin: Any, partitions: Sequence[TopicPartition], unclean: bool, timeout_s: float
) -> dict[TopicPartition, str]:
    """Makes the preferred replica of each partition its leader (KIP-183).

    With `unclean`, elects any live replica instead, in partitions without a live in-sync replica (KIP-460). Returns
    partition -> error name, which is empty for success.
    """
    if not partitions:
        return {}
    kind = ck.ElectionType.UNCLEAN if unclean else ck.ElectionType.PREFERRED
    requested = [ck.TopicPartition(topic, number) for topic, number in partitions]
    deadline = time.monotonic() + timeout_s + SLACK_S
    # Without a timeout argument, with which confluent-kafka 2.16 raises SystemError (it names too few arguments).
    future = admin.elect_leaders(kind, requested)
    answers = _result(future, deadline, "electing leaders")
    return {(at.topic, at.partition): "" if error is None else converted(error).code for at, error in answers.items()}


def add_partitions(admin: Any, totals: Mapping[str, int], timeout_s: float) -> None:
    """Increases the number of partitions of each topic to the given total (KIP-195)."""
    if not totals:
        return
    deadline = time.monotonic() + timeout_s + SLACK_S
    requested = [NewPartitions(topic, total) for topic, total in totals.items()]
    futures = admin.create_partitions(requested, request_timeout=timeout_s, operation_timeout=timeout_s)
    for topic, future in futures.items():
        _result(future, deadline, f"adding partitions to {topic}")


def _resource(topic: str, entries: Sequence[Any] | None = None) -> Any:
    return ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)


def group(admin: Any, name: str, timeout_s: float) -> dict[str, Any]:
    """Returns {"state", "members": [[client id, host], ...]} of a consumer group."""
    deadline = time.monotonic() + timeout_s + SLACK_S
    future = admin.describe_consumer_groups([name], request_timeout=timeout_s)[name]
    seen = _result(future, deadline, f"describing group {name}")
    return {"state": seen.state.name, "members": [[member.client_id, member.host] for member in seen.members]}


def configure_groups(admin: Any, groups: Sequence[str], changes: Mapping[str, str], timeout_s: float) -> None:
    """Sets settings of groups, which need not exist yet."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()]
    deadline = time.monotonic() + timeout_s + SLACK_S
    for group in groups:
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
        for future in admin.incremental_alter_configs([resource], request_timeout=timeout_s).values():
            _result(future, deadline, f"setting the configuration of group {group}")


def change_configs(admin: Any, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float) -> None:
    """Changes settings of topics.

    The value None removes a setting, so that the broker's default applies again (KIP-339).
    """
    if not topics or not changes:
        return
    entries = [
        ConfigEntry(
            name,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in changes.items()
    ]
    deadline = time.monotonic() + timeout_s + SLACK_S
    resources = [_resource(topic, entries) for topic in topics]
    for resource, future in admin.incremental_alter_configs(resources, request_timeout=timeout_s).items():
        _result(future, deadline, f"changing the settings of {resource.name}")


def configs(admin: Any, topics: Sequence[str], names: Sequence[str], timeout_s: float) -> dict[str, dict[str, str]]:
    """Returns topic -> setting -> effective value, for the named settings, from one of the brokers."""
    if not topics:
        return {}
    deadline = time.monotonic() + timeout_s + SLACK_S
    futures = admin.describe_configs([_resource(topic) for topic in topics], request_timeout=timeout_s)
    configs_by_topic = {}
    for resource, future in futures.items():
        entries = _result(future, deadline, f"the settings of {resource.name}")
        configs_by_topic[resource.name] = {name: str(entries[name].value) for name in names if name in entries}
    return configs_by_topic


def topic_ids(admin: Any, names: Sequence[str], timeout_s: float) -> dict[str, str]:
    """Returns topic -> topic id, in base64 as Kafka writes it, for the named topics."""
    if not names:
        return {}
    deadline = time.monotonic() + timeout_s + SLACK_S
    ids = {}
    futures = admin.describe_topics(ck.TopicCollection(list(names)), request_timeout=timeout_s)
    for name, future in futures.items():
        found = _result(future, deadline, f"the id of topic {name}").topic_id
        halves = (found.get_most_significant_bits(), found.get_least_significant_bits())
        ids[name] = base64.urlsafe_b64encode(struct.pack(">qq", *halves)).decode().rstrip("=")
    return ids


def broker_configs(
    admin: Any, brokers: Sequence[int], names: Sequence[str], timeout_s: float
) -> dict[str, dict[str, str]]:
    """Returns broker id -> setting -> effective value.

    Each broker is asked for its own settings. Brokers that do not respond are omitted.
    """
    deadline = time.monotonic() + timeout_s + SLACK_S
    futures_by_broker = {
        broker: admin.describe_configs(
            [ConfigResource(ConfigResource.Type.BROKER, str(broker))], request_timeout=timeout_s
        )
        for broker in brokers
    }
    answers = {}
    for broker, futures in futures_by_broker.items():
        with contextlib.suppress(ClientError):
            entries = _result(next(iter(futures.values())), deadline, f"the settings of broker {broker}")
            answers[str(broker)] = {
                name: str(entries[name].value) for name in names if name in entries and entries[name].value is not None
            }
    return answers


def committed(
    config: Mapping[str, Any], group: str, partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int | None]:
    """Returns partition -> the group's committed offset; None if there is none. Only stable offsets count (KIP-447).

    A consumer asks, which does not join the group. In librdkafka 2.16, the admin client's request for the offsets of a
    group ends the process when the coordinator moves (assertion in rd_kafka_enq_once_del_source_return).

    config  the properties of the connection
    """
    consumer = ck.Consumer({**config, "group.id": group, "isolation.level": "read_committed"})
    try:
        answer = consumer.committed([ck.TopicPartition(*at) for at in partitions], timeout=timeout_s)
    except ck.KafkaException as error:
        raise converted(error) from None
    finally:
        consumer.close()
    offsets: dict[TopicPartition, int | None] = {}
    for place in answer:
        if place.error is not None:
            raise converted(place.error)
        offsets[place.topic, place.partition] = place.offset if place.offset >= 0 else None
    return offsets


def features_in_force(brokers: Mapping[int, str], timeout_s: float) -> dict[str, int] | None:
    """Returns name of feature -> finalized level, from the first broker that responds.

    Returns None if that broker reports no features. Connects without TLS and SASL. Raises ClientError.
    """
    deadline, failed = time.monotonic() + timeout_s, "the metadata has no brokers"
    for address in brokers.values():
        try:
            left_s = max(_AGAIN_S, deadline - time.monotonic())
            return features.finalized(admin_requests.ask(address, features.request(), left_s))
        except (OSError, ValueError) as error:
            failed = f"{address}: {error}"
    raise ClientError("_TRANSPORT", failed)


def _send_to_controller(addresses: Mapping[str, Any], request: bytes, read: Any, timeout_s: float) -> None:
    """Sends an encoded request to the controller, or to any broker if the metadata names no controller.

    Raises ClientError. The error is retriable if the broker responds that it is not the controller.

    addresses  the result of `client_protocols.Admin.cluster`
    read       returns (error code, message) from an encoded response
    """
    brokers = addresses["brokers"]
    address = brokers.get(addresses["controller"]) or next(iter(brokers.values()), None)
    if address is None:
        raise ClientError("_TRANSPORT", "the metadata has no brokers")
    try:
        code, message = read(admin_requests.ask(address, request, timeout_s))
    except (OSError, ValueError) as error:
        raise ClientError("_TRANSPORT", f"{address}: {error}") from None
    if code:
        name = ck.KafkaError(code).name()
        raise ClientError(name, message or "refused", "retriable" if code == _NOT_CONTROLLER else "plain")


def _retry(attempt: Any, timeout_s: float) -> None:
    """Calls `attempt(seconds left)`.

    If the request reached a broker that is not the controller, or the connection failed, tries again until the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            attempt(max(_AGAIN_S, deadline - time.monotonic()))
            return
        except ClientError as error:
            moved = error.kind == "retriable" or error.code == "_TRANSPORT"
            if not moved or time.monotonic() + _AGAIN_S > deadline:
                raise
        time.sleep(_AGAIN_S)


def reassign(cluster: Any, replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float) -> None:
    """Starts moving each partition to the given brokers. Does not wait until they have been moved.

    cluster  the method `cluster` of `client_protocols.Admin`
    """
    if not replicas:
        return

    def attempt(left_s: float) -> None:
        request = admin_requests.reassign_request(replicas, left_s)
        _send_to_controller(cluster(left_s), request, admin_requests.reassign_answer, left_s)

    _retry(attempt, timeout_s)


def unregister(cluster: Any, broker: int, timeout_s: float) -> None:
    """Unregisters a stopped broker from a cluster in KRaft mode.

    cluster  the method `cluster` of `client_protocols.Admin`
    """

    def attempt(left_s: float) -> None:
        request = admin_requests.unregister_request(broker)
        _send_to_controller(cluster(left_s), request, admin_requests.unregister_answer, left_s)

    _retry(attempt, timeout_s)


def set_features(cluster: Any, levels: Mapping[str, int], downgrade: bool, timeout_s: float) -> None:
    """Sets the finalized levels of features (KIP-584). With `downgrade`, levels may go down if no metadata is lost.

    cluster  the method `cluster` of `client_protocols.Admin`
    """
    if not levels:
        return
    kind = update_features.SAFE_DOWNGRADE if downgrade else update_features.UPGRADE

    def attempt(left_s: float) -> None:
        request = update_features.request(levels, kind, left_s)
        _send_to_controller(cluster(left_s), request, update_features.answer, left_s)

    _retry(attempt, timeout_s)
