"""Requests for runs on a shared cluster: checking permissions, and deleting the run's topics.

Each function takes confluent-kafka's AdminClient as its first argument and raises ClientError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AclOperation

from harness.clients.confluent.settings_and_errors import converted
from harness.protocol.error_codes import ClientError

SLACK_S: Final = 1.0  # how much longer than the request's timeout a future is awaited
GONE_PERIOD_S: Final = 0.1
METADATA_S: Final = 5.0
_GONE: Final = frozenset({"UNKNOWN_TOPIC_OR_PART"})
_NEEDED: Final = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.DESCRIBE)


def _each(futures: Mapping[str, Future[Any]], timeout_s: float, what: str) -> dict[str, Any]:
    """Waits for the futures, and returns topic -> result. The result is None for a topic that does not exist.

    `what` names the request, for messages.
    """
    deadline = time.monotonic() + timeout_s + SLACK_S
    results: dict[str, Any] = {}
    for name, future in futures.items():
        try:
            results[name] = future.result(timeout=max(0.0, deadline - time.monotonic()))
        except ck.KafkaException as error:
            failed = converted(error)
            if failed.code not in _GONE:
                raise ClientError(failed.code, f"{what} {name}: {failed.text}") from None
            results[name] = None
        except FutureTimeout:
            raise ClientError("_TIMED_OUT", f"{what} {name}: no answer within {timeout_s:.0f} s") from None
    return results


def delete_topics(admin: Any, names: Sequence[str], timeout_s: float) -> None:
    """Deletes topics, and waits until they have disappeared from the metadata."""
    if not names:
        return
    deadline = time.monotonic() + timeout_s
    futures = admin.delete_topics(list(names), operation_timeout=timeout_s, request_timeout=timeout_s)
    _each(futures, timeout_s, "deleting topic")
    while True:
        remaining, failed = sorted(names), None
        try:
            remaining = sorted(set(names) & admin.list_topics(timeout=METADATA_S).topics.keys())
        except ck.KafkaException as error:
            failed = converted(error)
        if not remaining:
            return
        if time.monotonic() > deadline:
            text = f"{', '.join(remaining)} not deleted after {timeout_s:.0f} s"
            raise failed or ClientError("_TIMED_OUT", text)
        time.sleep(GONE_PERIOD_S)


def forbidden(admin: Any, topic: str, timeout_s: float) -> list[str]:
    """Returns the permissions on its topics that a run needs but lacks, such as "Write on topics".

    Returns [] if the broker does not report permissions (Kafka before 2.3). Permissions on groups are not requested,
    because librdkafka 2.16 aborts the process (`eonce->refcnt > 0`) if it does not find a group's coordinator before
    the request times out.
    """
    described = _each(
        admin.describe_topics(
            ck.TopicCollection([topic]), include_authorized_operations=True, request_timeout=timeout_s
        ),
        timeout_s,
        "describing topic",
    )
    allowed = getattr(described.get(topic), "authorized_operations", None)
    if not allowed:
        return []
    return [f"{each.name.capitalize()} on topics" for each in _NEEDED if each not in allowed]
