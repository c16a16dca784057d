"""Checks what a client program writes: each line, and the fields of each answer. Pure.

The format is described in docs/use/your-own-client.md. A line that does not follow the format raises `BadAnswer`: if a
program does not follow the protocol, nothing that it reports can be trusted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import orjson

from harness.clients.client_protocols import Batch, Record
from harness.clients.error_outcomes import RENAMED
from harness.clients.exec.never_sent import NEVER_SENT, NEVER_SENT_CODE
from harness.protocol.error_codes import ClientError, Kind, TopicPartition

OFFSET_MAX: Final = (1 << 63) - 1
TEXT_MAX: Final = 2000  # characters of an error's text that are kept
SHOWN_BYTES: Final = 80
EVENTS: Final = ("assigned", "revoked", "lost")
KINDS: Final[tuple[Kind, ...]] = ("retriable", "abortable", "fatal", "plain")


class BadAnswer(ValueError):
    """A line does not follow the protocol, or one of its fields does not."""


def message(line: bytes) -> dict[str, Any]:
    """Returns the JSON object that a line contains. Raises BadAnswer."""
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"a line that is not JSON ({error}): {line[:SHOWN_BYTES]!r}") from None
    if not isinstance(parsed, dict):
        raise BadAnswer(f"a line that is not a JSON object: {line[:SHOWN_BYTES]!r}")
    if not _is_whole(parsed.get("id")):
        raise BadAnswer(f"a line without a whole number as its `id`: {line[:SHOWN_BYTES]!r}")
    if sum(name in parsed for name in ("ok", "error", "event")) != 1:
        raise BadAnswer(f"a line that needs exactly one of `ok`, `error` and `event`: {line[:SHOWN_BYTES]!r}")
    for name in ("ok", "error"):
        if name in parsed and not isinstance(parsed[name], dict):
            raise BadAnswer(f"a field `{name}` that is not an object: {line[:SHOWN_BYTES]!r}")
    return parsed


def error(fields: Mapping[str, Any], library: str) -> ClientError:
    """Returns the ClientError for the `error` object of an answer. Raises BadAnswer.

    If the program claims that the request was never sent, this is believed only for errors that `never_sent` lists.

    library  name of the program's library
    """
    code, text = fields.get("code"), fields.get("text", "")
    kind, sent = fields.get("kind") or "plain", fields.get("sent") or "maybe"
    if not isinstance(code, str) or not code or not isinstance(text, str):
        raise BadAnswer(f"an error without `code` and `text`: {_shown(fields)}")
    if kind not in KINDS or sent not in ("no", "maybe"):
        raise BadAnswer(f"an error with an unknown `kind` or `sent`: {_shown(fields)}")
    if sent == "no" and code in NEVER_SENT.get(library, {}):
        return ClientError(NEVER_SENT_CODE, f"{code}: {text[:TEXT_MAX]}", kind)
    return ClientError(RENAMED.get(code, code)[:TEXT_MAX], text[:TEXT_MAX], kind)


def acknowledged_offset(fields: Mapping[str, Any]) -> int | None:
    """Returns the offset in the answer to `send`, or None if the answer contains none. Raises BadAnswer."""
    offset = fields.get("offset")
    return None if offset is None else _offset(offset)


def batch(fields: Mapping[str, Any], records_max: int, library: str) -> Batch:
    """Returns the result of a poll, from the answer to `poll`. Raises BadAnswer."""
    records = _list(fields, "records")
    if len(records) > records_max:
        raise BadAnswer(f"{len(records)} records where at most {records_max} were requested")
    errors = [error(_object(each, "errors"), library) for each in _list(fields, "errors")]
    return Batch([_record(each) for each in records], positions(fields, "positions"), errors)


def positions(fields: Mapping[str, Any], name: str) -> dict[TopicPartition, int]:
    """Returns partition -> offset, from the list of positions in the field `name`. Raises BadAnswer."""
    found = {}
    for each in _list(fields, name):
        position = _object(each, name)
        found[_partition(position)] = _offset(position.get("offset"))
    return found


def rebalance(
    fields: Mapping[str, Any],
) -> tuple[str, list[TopicPartition], dict[TopicPartition, int | None]]:
    """Returns (name of the event, partitions, committed offsets) from a rebalance event. Raises BadAnswer.

    The committed offsets are a mapping of partition -> offset (None: nothing committed). They have only the partitions
    for which the program reported one.
    """
    event = fields.get("event")
    if event not in EVENTS:
        raise BadAnswer(f"an unknown event {event!r} (known: {', '.join(EVENTS)})")
    partitions = [_partition(_object(each, "partitions")) for each in _list(fields, "partitions")]
    committed: dict[TopicPartition, int | None] = {}
    for each in _list(fields, "committed"):
        position = _object(each, "committed")
        offset = position.get("offset")
        committed[_partition(position)] = None if offset is None else _offset(offset)
    return str(event), partitions, committed


def _record(value: Any) -> Record:
    fields = _object(value, "records")
    topic, partition = _partition(fields)
    body = fields.get("value")
    if body is None:
        return Record(topic, partition, _offset(fields.get("offset")), None)
    if not isinstance(body, str):
        raise BadAnswer(f"a record whose `value` is not text: {_shown(fields)}")
    try:
        return Record(topic, partition, _offset(fields.get("offset")), base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        raise BadAnswer(f"a record whose `value` is not base64: {_shown(fields)}") from None


def _partition(fields: Mapping[str, Any]) -> TopicPartition:
    topic, partition = fields.get("topic"), fields.get("partition")
    if not isinstance(topic, str) or not _is_whole(partition) or not 0 <= partition < 1 << 31:
        raise BadAnswer(f"an object without a valid `topic` or `partition`: {_shown(fields)}")
    return topic, partition


def _offset(value: Any) -> int:
    if not _is_whole(value) or not 0 <= value <= OFFSET_MAX:
        raise BadAnswer(f"an `offset` that is not valid: {str(value)[:SHOWN_BYTES]}")
    return int(value)


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadAnswer(f"a field `{name}` that is not a list: {_shown(fields)}")
    return value


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadAnswer(f"an entry of `{name}` that is not an object: {str(value)[:SHOWN_BYTES]}")
    return value


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(fields: Mapping[str, Any]) -> str:
    return str(fields)[:SHOWN_BYTES]
