"""Converts the ops of share groups (KIP-932) to rows of the tables that `checker.tables.schema` describes.

    share-poll          ok: {"records": [[key, offset, value, delivery count], ...], "renewed": like records,
                        "acknowledged": [[key, offset, kind, error or null], ...]}
    share-acknowledge   [[key, offset, kind], ...], ok: [[key, offset, kind, error or null], ...]
    share-close         no value
    share-offsets       ok: {key as text: start offset}
    share-dead-letters  ok: [[key, offset], ...]: the records in the group's dead letter queue

The fields `group` and `member` are in the op's `extra`. An error that begins with "_" comes from the client: the
acknowledgement was not sent (`_STATE`), or its result is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from checker.tables.coding import EMPTY, Coder
from checker.tables.schema import (
    ACK_KINDS,
    FAIL,
    INFO,
    INVALID_STATE,
    NO_ERROR,
    OK,
    OTHER_ERROR,
    SHARE_ACKNOWLEDGE,
    SHARE_CLOSE,
    SHARE_FS,
    SHARE_POLL,
)

LIMIT: Final = 1 << 62
NOT_SENT: Final = "_STATE"
Row = tuple[Any, ...]
Rows = dict[str, list[Row]]


class BadShareOp(Exception):
    """The value of an op does not have its form. The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class ShareOp:
    """One completed op of a share group. `type_` is a code of schema.TYPE_CODES; times are in ns, -1: never."""

    op: int
    process: int
    type_: int
    f: str
    value: Any
    extra: Mapping[str, Any]
    invoke_ns: int
    complete_ns: int


def rows_of(one: ShareOp, coder: Coder) -> Rows:
    """Returns the rows of one op, by table. Raises BadShareOp."""
    try:
        return _rows(one, coder)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadShareOp(f"the value of {one.f} does not have its form: {str(one.value)[:120]}") from None


def _rows(one: ShareOp, coder: Coder) -> Rows:
    kind, records = SHARE_FS[one.f], 0
    found: Rows = {}
    group, member = (_name(one.extra.get(field), coder) for field in ("group", "member"))
    if member == EMPTY and kind in (SHARE_POLL, SHARE_ACKNOWLEDGE, SHARE_CLOSE):
        member = one.process
    final, times = bool(one.extra.get("final", False)), (one.invoke_ns, one.complete_ns)
    if kind == SHARE_POLL and one.type_ == OK:
        value = one.value or {}
        cells = (one.op, group, member, final, *times)
        returned = [(False, row) for row in value.get("records") or ()]
        returned += [(True, row) for row in value.get("renewed") or ()]
        found["deliveries"] = [_delivery(row, at, again, cells, coder) for at, (again, row) in enumerate(returned)]
        records = len(returned)
        results = value.get("acknowledged") or ()
        found["acknowledgements"] = _acknowledgements(results, OK, True, (one.op, group, member, *times), coder)
    elif kind == SHARE_ACKNOWLEDGE:
        results = one.value or ()
        found["acknowledgements"] = _acknowledgements(results, one.type_, False, (one.op, group, member, *times), coder)
    elif one.f == "share-offsets" and one.type_ == OK:
        starts = [(_key(key, coder), _whole(start)) for key, start in (one.value or {}).items() if start is not None]
        found["share_offsets"] = [(one.op, group, key, start, *times) for key, start in starts]
    elif one.f == "share-dead-letters" and one.type_ == OK:
        letters = ((coder.code(key), _whole(offset)) for key, offset in one.value or ())
        found["dead_letters"] = [(one.op, group, key, offset) for key, offset in letters]
    found["share_ops"] = [(one.op, one.process, one.type_, kind, group, member, final, records, *times)]
    return found


def _name(name: Any, coder: Coder) -> int:
    return EMPTY if name is None else coder.code(name)


def _key(text: Any, coder: Coder) -> int:
    """Returns the code of a key that is a field name of a JSON object, and therefore a text."""
    digits = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 19
    return coder.code(int(text) if digits else text)


def _whole(number: Any) -> int:
    if type(number) is not int or not -LIMIT < number < LIMIT:
        raise ValueError(number)
    return number


def _delivery(row: Any, place: int, again: bool, cells: Row, coder: Coder) -> Row:
    key, offset, value, count = row
    return coder.code(key), _whole(offset), coder.code(value), _whole(count), place, again, *cells


def _acknowledgements(results: Any, type_: int, by_poll: bool, cells: Row, coder: Coder) -> list[Row]:
    found = []
    for place, row in enumerate(results):
        key, offset, kind, *more = row
        error = more[0] if more else None
        cell = (coder.code(key), _whole(offset), place, ACK_KINDS[kind])
        found.append((*cell, *_outcome(type_, error), by_poll, *cells))
    return found


def _outcome(type_: int, error: Any) -> tuple[int, int]:
    """Returns (type, kind of error) of one acknowledgement, from the type of its op and its own error."""
    if type_ != OK or error is None:
        return type_, NO_ERROR
    text = str(error)
    if text.startswith("_"):
        return (FAIL if text.startswith(NOT_SENT) else INFO), OTHER_ERROR
    if text.replace("_", "").upper().startswith("INVALIDRECORDSTATE"):
        return FAIL, INVALID_STATE
    return INFO, OTHER_ERROR
