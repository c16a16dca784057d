"""Errors of client libraries that prove that a record was never written to a socket, with their sources.

A client program may claim `"sent": "no"` for any error. The claim is believed only if the library and the error are
listed here. If it is believed, the `send` completes as `fail`. Every other error leaves the `send` indeterminate unless
`error_outcomes.TABLE` says otherwise. Library names are those that programs give in the answer to `hello`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEVER_SENT_CODE: Final = "_NEVER_SENT"  # has a row in error_outcomes.TABLE

NEVER_SENT: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka-python": {
        "MESSAGE_TOO_LARGE": "kafka/producer/kafka.py: send() raises it before it queues the record",
    },
    "franz-go": {
        "MESSAGE_TOO_LARGE": "pkg/kgo/producer.go: a record above MaxBatchBytes is refused before it is buffered",
    },
}
