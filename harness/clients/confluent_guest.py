"""Being a guest on a cluster that stays: what a run may do there, and taking away what it made.

Each function takes confluent-kafka's AdminClient first and raises ClientError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AclOperation

from harness.clients.api import ClientError
from harness.clients.confluent_config import converted

SLACK_S: Final = 1.0  # futures get this much longer than the request they stand for
GONE_PERIOD_S: Final = 0.1
GROUP_S: Final = 3.0
METADATA_S: Final = 5.0
_GONE: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "GROUP_ID_NOT_FOUND"})
_TOPIC: Final = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.DESCRIBE)
_GROUP: Final = (AclOperation.READ,)


def _each(futures: Mapping[str, Future[Any]], timeout_s: float, what: str) -> dict[str, Any]:
    """The answers by name; None for what is not there."""
    deadline = time.monotonic() + timeout_s + SLACK_S
    found: dict[str, Any] = {}
    for name, future in futures.items():
        try:
            found[name] = future.result(timeout=max(0.0, deadline - time.monotonic()))
        except ck.KafkaException as error:
            failed = converted(error)
            if failed.code not in _GONE:
                raise ClientError(failed.code, f"{what} {name}: {failed.text}") from None
            found[name] = None
        except FutureTimeout:
            raise ClientError("_TIMED_OUT", f"{what} {name}: no answer in {timeout_s:.0f} s") from None
    return found


def delete_topics(admin: Any, names: Sequence[str], timeout_s: float) -> None:
    """Delete topics, and wait until no broker that answers names them."""
    if not names:
        return
    deadline = time.monotonic() + timeout_s
    futures = admin.delete_topics(list(names), operation_timeout=timeout_s, request_timeout=timeout_s)
    _each(futures, timeout_s, "deleting topic")
    while True:
        left, failed = sorted(names), None
        try:
            left = sorted(set(names) & admin.list_topics(timeout=METADATA_S).topics.keys())
        except ck.KafkaException as error:
            failed = converted(error)
        if not left:
            return
        if time.monotonic() > deadline:
            text = f"{', '.join(left)} still there after {timeout_s:.0f} s"
            raise failed or ClientError("_TIMED_OUT", text)
        time.sleep(GONE_PERIOD_S)


def delete_group(admin: Any, group: str, timeout_s: float) -> None:
    """Delete a consumer group; one that is not there, or not empty yet, is left alone.

    So is one whose coordinator does not answer in time: librdkafka does not ask again for one that a cluster
    without groups has yet to make. What is left of a group goes with its offsets' retention.
    """
    try:
        _each(admin.delete_consumer_groups([group], request_timeout=timeout_s), timeout_s, "deleting group")
    except ClientError as error:
        if error.code not in ("NON_EMPTY_GROUP", "_TIMED_OUT") and "COORDINATOR" not in error.code:
            raise


def forbidden(admin: Any, topic: str, group: str, timeout_s: float) -> list[str]:
    """What a run needs to do with its topics and group and may not, "Write on topics"."""
    topics = ck.TopicCollection([topic])
    told = _each(
        admin.describe_topics(topics, include_authorized_operations=True, request_timeout=timeout_s),
        timeout_s,
        "describing topic",
    )
    missing = _lacking(told.get(topic), _TOPIC, "topics")
    deadline = time.monotonic() + timeout_s
    while True:
        futures = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=GROUP_S
        )
        try:
            told = _each(futures, GROUP_S, "describing group")
            return missing + _lacking(told.get(group), _GROUP, "groups")
        except ClientError as error:
            if error.code == "GROUP_AUTHORIZATION_FAILED":
                return [*missing, "Read on groups"]
            # A cluster's first group makes the topic of groups, which takes a moment. Not known is not
            # forbidden.
            if "COORDINATOR" not in error.code and error.code != "_TIMED_OUT":
                raise
            if time.monotonic() > deadline:
                return missing
        time.sleep(GONE_PERIOD_S)


def _lacking(described: Any, needed: Sequence[AclOperation], what: str) -> list[str]:
    """Nothing where the broker does not tell (before 2.3, and for groups that are not there)."""
    allowed = getattr(described, "authorized_operations", None)
    if not allowed:
        return []
    return [f"{each.name.capitalize()} on {what}" for each in needed if each not in allowed]
