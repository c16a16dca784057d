"""Makes the input records of an application, and reads its records: which input they belong to, and which state they
show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.clients.app.json_text import text_at
from harness.clients.app.spec import Input, OutputId, PlaceInOutput, State, filled

ID_DIGITS_MAX = 18  # ids are 64-bit integers in the tables of the check
STATE_DIGITS_MAX = 30  # counts and sums have up to 38 digits there

Headers = Sequence[tuple[str, bytes | None]]


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

    def id_of(self, key: bytes | None, headers: Headers, value: bytes) -> int | None:
        """Returns the id of the input record; None if the output does not name any."""
        found = _text(self.where, key, headers, value)
        if found is None or not re.fullmatch(rf"\d{{1,{ID_DIGITS_MAX}}}", found, re.ASCII):
            return None
        return int(found)


@dataclass(frozen=True)
class States:
    """Reads the values that the state of a key is computed from, and the states that outputs show, as texts.

    Numbers that are counted or added up have no leading zeros, so that equal numbers are equal texts.
    """

    state: State

    def of_input(self, value: bytes) -> str | None:
        """Returns the value that an input record contributes; None if there is none, or if records are counted."""
        path = self.state.equals.sum or self.state.equals.last
        return None if path is None else self._normal(text_at(value, path))

    def of_output(self, key: bytes | None, headers: Headers, value: bytes) -> str | None:
        """Returns the state that an output shows; None if it shows none."""
        return self._normal(_text(self.state.in_, key, headers, value))

    def _normal(self, text: str | None) -> str | None:
        if text is None or self.state.equals.last is not None:
            return text
        return str(int(text)) if re.fullmatch(rf"-?\d{{1,{STATE_DIGITS_MAX}}}", text, re.ASCII) else None


def _text(where: PlaceInOutput, key: bytes | None, headers: Headers, value: bytes) -> str | None:
    """Returns what the pattern of a place finds in an output record; None if nothing is there."""
    if where.key:
        text = None if key is None else key.decode(errors="replace")
    elif where.header is not None:
        named = [content for name, content in headers if name == where.header and content is not None]
        text = named[-1].decode(errors="replace") if named else None
    else:
        assert where.json_ is not None
        text = text_at(value, where.json_)
    found = None if text is None else re.fullmatch(where.pattern, text, re.ASCII)
    return None if found is None else found[1]
