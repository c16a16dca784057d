"""JSON encoding of values in calls to a persistent cluster. Types unknown to JSON become {"is": type, "of": ...}."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from harness.model.capabilities import CommandResult, LinkCounts, LinkQuality, LogDir
from harness.model.wire_rules import Rule, RuleCounts, Traffic
from harness.protocol.brokers_metadata_views import PartitionView, View

_TYPE: Final = "is"
_RECORDS: Final[Mapping[str, Any]] = {
    kind.__name__: kind
    for kind in (CommandResult, LinkCounts, LinkQuality, LogDir, PartitionView, Rule, RuleCounts, Traffic, View)
}


def encode(value: Any) -> Any:
    """Returns a value as JSON. Raises TypeError for an unsupported type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return _typed("tuple", [encode(item) for item in value])
    if isinstance(value, frozenset):
        return _typed("frozenset", [encode(item) for item in value])
    if isinstance(value, bytes):
        return _typed("bytes", base64.b64encode(value).decode())
    if isinstance(value, Mapping):
        if _TYPE not in value and all(isinstance(key, str) for key in value):
            return {key: encode(item) for key, item in value.items()}
        return _typed("dict", [[encode(key), encode(item)] for key, item in value.items()])
    name = type(value).__name__
    if _RECORDS.get(name) is not type(value):
        raise TypeError(f"values of type {name} cannot be encoded")
    return _typed(name, {field.name: encode(getattr(value, field.name)) for field in fields(_RECORDS[name])})


def _typed(name: str, content: Any) -> dict[str, Any]:
    return {_TYPE: name, "of": content}


def decode(data: Any) -> Any:
    """Returns the value that `encode` encoded. Raises ValueError for an unknown type."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    if _TYPE not in data:
        return {key: decode(item) for key, item in data.items()}
    name, content = data[_TYPE], data["of"]
    match name:
        case "tuple":
            return tuple(decode(item) for item in content)
        case "frozenset":
            return frozenset(decode(item) for item in content)
        case "bytes":
            return base64.b64decode(content)
        case "dict":
            return {decode(key): decode(item) for key, item in content}
    if name not in _RECORDS:
        raise ValueError(f"values of type {name} cannot be decoded")
    return _RECORDS[name](**{field: decode(item) for field, item in content.items()})
