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

from harness.clients.confluent.settings_and_errors import converted
from harness.protocol.error_codes import ClientError

SLACK_S: Final = 1.0  # futures get this much longer than the request they stand for
GONE_PERIOD_S: Final = 0.1
METADATA_S: Final = 5.0
_GONE: Final = frozenset({"UNKNOWN_TOPIC_OR_PART"})
_NEEDED: Final = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.DESCRIBE)


def _each(futures: Mapping[str, Future[Any]], timeout_s: float, what: str) -> dict[str, Any]:
    """The answers by name; None for what is not there."""
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
            raise ClientError("_TIMED_OUT", f"{what} {name}: no answer in {timeout_s:.0f} s") from None
    return results


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


def forbidden(admin: Any, topic: str, timeout_s: float) -> list[str]:
    """What a run needs to do with its topics and may not, "Write on topics".

    Nothing where the broker does not tell (before 2.3). Groups are not asked about here: librdkafka 2.16 ends
    the process (`eonce->refcnt > 0`) when a group's coordinator is not found before the request times out.
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
