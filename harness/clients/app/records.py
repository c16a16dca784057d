"""Makes the input records of an application, and finds out which input record a record belongs to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.clients.app.spec import Input, OutputId, filled

ID_DIGITS_MAX = 18  # ids are 64-bit integers in the tables of the check


@dataclass(frozen=True)
class InputRecords:
    """Input records of the shape that app.yaml gives."""

    shape: Input
    _patterns: list[re.Pattern[str]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_patterns", [_pattern(text) for text in self.shape.values])

    def make(self, id: int, key: int) -> tuple[bytes, bytes]:
        """Returns (key, value) of the record with this id."""
        names = {"id": id, "key": key}
        texts = self.shape.values
        return filled(self.shape.key, names).encode(), filled(texts[id % len(texts)], names).encode()

    def id_of(self, value: bytes) -> int | None:
        """Returns the id of a record of the input; None if this object did not make it."""
        text = value.decode(errors="replace")
        for number, pattern in enumerate(self._patterns):
            found = pattern.fullmatch(text)
            if found is not None and int(found["id"]) % len(self._patterns) == number:
                return int(found["id"])
        return None


def _pattern(text: str) -> re.Pattern[str]:
    """Returns the pattern that matches exactly the values made from a text."""
    parts, seen = [], False
    for part in re.split(r"(\{id\}|\{key\})", text):
        if part == "{id}":
            parts.append("(?P=id)" if seen else rf"(?P<id>\d{{1,{ID_DIGITS_MAX}}})")
            seen = True
        else:
            parts.append(r"\d+" if part == "{key}" else re.escape(part))
    return re.compile("".join(parts), re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class OutputIds:
    """Reads from output records which input record they belong to."""

    where: OutputId

    def id_of(self, key: bytes | None, headers: Sequence[tuple[str, bytes | None]], value: bytes) -> int | None:
        """Returns the id of the input record; None if the output does not name any."""
        text = self._text(key, headers, value)
        found = None if text is None else re.fullmatch(self.where.pattern, text, re.ASCII)
        if found is None or not found[1] or not re.fullmatch(rf"\d{{1,{ID_DIGITS_MAX}}}", found[1], re.ASCII):
            return None
        return int(found[1])

    def _text(self, key: bytes | None, headers: Sequence[tuple[str, bytes | None]], value: bytes) -> str | None:
        if self.where.key:
            return None if key is None else key.decode(errors="replace")
        if self.where.header is not None:
            named = [content for name, content in headers if name == self.where.header and content is not None]
            return named[-1].decode(errors="replace") if named else None
        assert self.where.json_ is not None
        try:
            content = json.loads(value)
        except (ValueError, RecursionError):
            return None
        return _at(content, self.where.json_)


def _at(content: Any, path: str) -> str | None:
    """Returns the text or whole number at a path of a JSON value; None if there is none."""
    for name in path.removeprefix("$.").split("."):
        if isinstance(content, Mapping):
            content = content.get(name)
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return str(content) if isinstance(content, str | int) and not isinstance(content, bool) else None
