"""Makes responses with errors: either instead of a broker, or by changing a broker's response. Pure: bytes in and out.

The library kio encodes and decodes the messages, by Kafka's own schemas. It takes a moment to load, so it is imported
with the first rule that needs it.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, Final, get_args, get_origin

from harness.protocol.request_head import SIZE, Request

# Each set: names that a field has in a request or in its response, and that mean the same there.
_IDENTITIES: Final = (
    frozenset({"name", "topic"}),
    frozenset({"topic_id"}),
    frozenset({"index", "partition", "partition_index"}),
    frozenset({"group_id"}),
    frozenset({"member_id"}),
)
# Fields of a response that brokers leave empty beside an error: name -> the empty value.
_CONTENTS: Final[Mapping[str, object]] = {"records": b"", "base_offset": -1}


# API -> first version in which brokers answer PRODUCER_FENCED; older versions: INVALID_PRODUCER_EPOCH (KIP-588).
_FENCED_SINCE: Final = {22: 4, 24: 2, 25: 2, 26: 2}  # InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn


class NotPossibleError(Exception):
    """No response with an error is possible: kio does not know the version, or the message has no error field."""


def load() -> None:
    """Imports kio, so that the first response is made at once."""
    import kio.index
    import kio.serial  # noqa: F401


def refusal(request: bytes, error: str) -> bytes:
    """Returns the response that reports an error for a request: for each partition in it, or for the whole request.

    request  the frame of the request, including its size field
    error    name of the error

    Returns a frame, including its size field. Raises NotPossibleError.
    """
    import kio.index

    def make() -> tuple[Any, int, bool]:
        api, version = int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")
        schema = kio.index.load_request_schema(api, version)
        header, asked = _decoded(request, schema)
        body, marked = _answer(kio.index.load_response_schema(api, version), asked, _code(error, api, version))
        return body, header.correlation_id, marked

    return _frame(make)


def failure(response: bytes, request: Request, error: str) -> bytes:
    """Returns a broker's response with an error in place of each success. The broker's own errors stay.

    response  the frame of the response, including its size field
    request   the request that the broker answered
    error     name of the error

    Returns a frame, including its size field. Raises NotPossibleError.
    """
    import kio.index

    def make() -> tuple[Any, int, bool]:
        header, body = _decoded(response, kio.index.load_response_schema(request.api, request.version))
        failed, marked = _failed(body, _code(error, request.api, request.version))
        return failed, header.correlation_id, marked

    return _frame(make)


def _frame(make: Callable[[], tuple[Any, int, bool]]) -> bytes:
    """Encodes a response as a frame. Raises NotPossibleError.

    make  returns (body, correlation id, whether the body carries an error)
    """
    import kio.serial

    try:
        body, correlation, marked = make()
        if not marked:
            raise NotPossibleError(f"{type(body).__name__} has no field for an error")
        stream, header = io.BytesIO(), type(body).__header_schema__
        kio.serial.entity_writer(header)(stream, header(correlation_id=correlation))
        kio.serial.entity_writer(type(body))(stream, body)
    except NotPossibleError:
        raise
    except Exception as why:  # kio raises errors of many types for bytes that do not follow the schema
        raise NotPossibleError(f"{type(why).__name__}: {why}") from why
    return SIZE.pack(len(stream.getvalue())) + stream.getvalue()


def _decoded(frame: bytes, schema: Any) -> tuple[Any, Any]:
    """Returns (header, body) of a frame."""
    import kio.serial

    header, size = kio.serial.entity_reader(schema.__header_schema__)(frame, 4)
    body, _ = kio.serial.entity_reader(schema)(frame, 4 + size)
    return header, body


def _code(error: str, api: int = -1, version: int = 0) -> Any:
    from kio.schema.errors import ErrorCode

    if error == "PRODUCER_FENCED" and version < _FENCED_SINCE.get(api, 0):
        return ErrorCode.invalid_producer_epoch
    return ErrorCode[error.lower()]


def _answer(schema: Any, asked: Any, code: Any) -> tuple[Any, bool]:
    """Makes a response, or a part of one, such as a partition; returns (the made object, whether it has an error).

    schema  kio's class of the object to make
    asked   the corresponding object of the request, or a plain value from the request, such as a partition's number
    code    the error; it is set in the innermost parts, and an object with such a part has the error NONE itself
    """
    values: dict[str, Any] = {}
    marked, lists = False, _lists(asked)
    for each in fields(schema):
        nested = _element(each)
        if nested is not None and each.default is MISSING:
            items = next((lists.pop(at) for at, list_ in enumerate(lists) if _alike(nested, list_)), ())
            made = [_answer(nested, item, code) for item in items]
            values[each.name] = tuple(entity for entity, _ in made)
            marked = marked or any(has_error for _, has_error in made)
        elif not _is_error(each):
            values[each.name] = _copied(each, asked)
    errors = [each for each in fields(schema) if _is_error(each)]
    values.update({each.name: _code("none") if marked else code for each in errors})
    return schema(**values), marked or bool(errors)


def _lists(asked: Any) -> list[tuple[Any, ...]]:
    """Returns the non-empty lists in an object of a request, in the order of its fields."""
    if not is_dataclass(asked):
        return []
    found = (getattr(asked, each.name) for each in fields(asked))
    return [value for value in found if isinstance(value, tuple) and value]


def _alike(nested: Any, items: tuple[Any, ...]) -> bool:
    """Returns whether a list in a response has one object (of class `nested`) for each of the request's `items`."""
    if not is_dataclass(items[0]):
        return True
    theirs, ours = ({each.name for each in fields(entity)} for entity in (items[0], nested))
    return any(names & theirs and names & ours for names in _IDENTITIES)


def _copied(field: Field[Any], asked: Any) -> Any:
    """Returns the value of the same field in the request; the default if the request has no such field."""
    if not is_dataclass(asked):
        identifies = field.name == "key" or any(field.name in names for names in _IDENTITIES)
        return asked if identifies else _default(field)
    names = next((names for names in _IDENTITIES if field.name in names), frozenset({""}))
    same = next((each.name for each in fields(asked) if each.name in names), None)
    return getattr(asked, same) if same else _default(field)


def _default(field: Field[Any]) -> Any:
    if _is_error(field):
        return _code("none")
    if field.name in _CONTENTS:
        return _CONTENTS[field.name]
    if field.default is not MISSING:
        return field.default
    if type(None) in get_args(field.type):
        return None
    if get_origin(field.type) is tuple:
        return ()
    kind: Any = field.type
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{each.name: _default(each) for each in fields(kind)})
    for base, value in ((bool, False), (str, ""), (bytes, b""), (int, 0), (datetime.timedelta, datetime.timedelta())):
        if issubclass(kind, base):
            return value
    raise NotPossibleError(f"a {kind.__name__} has no default")


def _element(field: Field[Any]) -> Any:
    """Returns the class of the objects in a field that is a list of objects; None for any other field."""
    return next((each for each in _types(field.type) if is_dataclass(each)), None) if _is_list(field) else None


def _is_list(field: Field[Any]) -> bool:
    return any(get_origin(each) is tuple for each in (field.type, *get_args(field.type)))


def _types(kind: Any) -> Iterator[Any]:
    yield kind
    for each in get_args(kind):
        yield from _types(each)


def _is_error(field: Field[Any]) -> bool:
    return field.metadata.get("kafka_type") == "error_code"


def _failed(entity: Any, code: Any) -> tuple[Any, bool]:
    """Replaces each success in an object of a response with the error `code`.

    Returns (object, whether it has an error).
    """
    changes: dict[str, Any] = {}
    marked = False
    for each in fields(entity):
        value = getattr(entity, each.name)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            made = [_failed(item, code) for item in value]
            changes[each.name] = tuple(item for item, _ in made)
            marked = marked or any(has_error for _, has_error in made)
    errors = [each for each in fields(entity) if _is_error(each)]
    if not marked and errors:
        changes |= {each.name: code for each in errors if getattr(entity, each.name) == 0}
        changes |= {name: value for name, value in _CONTENTS.items() if hasattr(entity, name)}
    return replace(entity, **changes), marked or bool(errors)
