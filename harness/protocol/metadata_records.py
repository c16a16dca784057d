"""Decodes the records of KRaft's metadata log (`__cluster_metadata`) and of its snapshots.

The value of a record is an unsigned varint with the version of the frame (1), one with the record type, one with the
version of the type, and the fields according to `harness.protocol.metadata_schemas`. Control batches contain records of
the quorum instead, whose key names their type: changes of the leader, and begin and end of a snapshot. Sources:
KIP-631, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from harness.protocol.flaws import Unreadable
from harness.protocol.metadata_schemas import SCHEMAS, Field, Fields
from harness.protocol.primitives import Reader
from harness.protocol.records import Record

LEADER_CHANGE: Final = 2
SNAPSHOT_FOOTER: Final = 4
_FRAME: Final = 1


class MetadataRecord(NamedTuple):
    """A decoded record. `fields` is None if the type or version is not known."""

    type: int
    version: int
    fields: Mapping[str, Any] | None


def decode(value: bytes) -> MetadataRecord:
    """Decodes the value of a record of the metadata log. Raises Unreadable if it does not match its schema."""
    reader = Reader(value)
    try:
        frame, kind, version = reader.varint(), reader.varint(), reader.varint()
        if frame != _FRAME:
            raise Unreadable(f"a metadata record with frame version {frame}")
        schema = SCHEMAS.get(kind)
        if schema is None or version > schema.newest:
            return MetadataRecord(kind, version, None)
        fields = _structure(reader, schema.fields, version)
    except struct.error:
        raise Unreadable("a metadata record is truncated") from None
    if not reader.ended:
        raise Unreadable(f"unexpected bytes after the fields of a metadata record of type {kind}")
    return MetadataRecord(kind, version, fields)


def control_type(record: Record) -> int:
    """Returns the type of a control record of the metadata log. Raises Unreadable."""
    if record.key is None or len(record.key) < 4:
        raise Unreadable("a control record whose key has no type field")
    return int.from_bytes(record.key[2:4], "big")


def new_leader(record: Record) -> int:
    """Returns the id of the leader that a control record of type LEADER_CHANGE names. Raises Unreadable."""
    if record.value is None or len(record.value) < 6:
        raise Unreadable("a change of the quorum's leader is truncated")
    return int.from_bytes(record.value[2:6], "big", signed=True)


def _uuid(reader: Reader) -> str:
    """Returns a Uuid as Kafka writes it: 22 characters of base64."""
    return base64.urlsafe_b64encode(reader.raw(16)).decode().rstrip("=")


def _string(reader: Reader) -> str | None:
    length = reader.varint() - 1
    return None if length < 0 else reader.raw(length).decode(errors="replace")


def _number(code: str) -> Callable[[Reader], Any]:
    return lambda reader: reader.take(code)


_TYPES: Final[Mapping[str, Callable[[Reader], Any]]] = {
    "bool": _number("?"),
    "int8": _number("b"),
    "int16": _number("h"),
    "uint16": _number("H"),
    "int32": _number("i"),
    "int64": _number("q"),
    "uuid": _uuid,
    "string": _string,
}


def _value(reader: Reader, field: Field, version: int) -> Any:
    if isinstance(field.type, tuple):
        return tuple(_structure(reader, field.type, version) for _ in range(reader.varint() - 1))
    if not field.type.startswith("[]"):
        return _TYPES[field.type](reader)
    length, read = reader.varint() - 1, _TYPES[field.type[2:]]
    return None if length < 0 else tuple(read(reader) for _ in range(length))


def _structure(reader: Reader, fields: Fields, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    tagged = {}
    for field in fields:
        if field.since > version:
            continue
        if field.tag is None:
            found[field.name] = _value(reader, field, version)
        else:
            tagged[field.tag] = field
            found[field.name] = field.default
    for _ in range(reader.varint()):
        tag, size = reader.varint(), reader.varint()
        content = reader.raw(size)
        if tag in tagged:
            found[tagged[tag].name] = _value(Reader(content), tagged[tag], version)
    return found
