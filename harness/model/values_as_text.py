"""Text of times, values, counts and lists, for messages and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LISTED: Final = 8


def seconds(time_ns: int) -> str:
    """Returns a time as text in seconds, such as "1.500 s"."""
    return f"{time_ns / 1e9:.3f} s"


def plain(value: Any) -> str:
    """Returns a value as text that is safe for a terminal: unprintable characters are escaped."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def first_of(values: Sequence[Any], count: int) -> str:
    """Returns the first few values as text, such as "1, 2, ... (300 in all)".

    count  the total number of values, which is mentioned if not all of them are shown
    """
    text = ", ".join(str(value) for value in values[:LISTED])
    return text + (f", ... ({count:,} in all)" if count > LISTED else "")


def listed(values: Sequence[Any]) -> str:
    """Returns the first few values as text. If some are left out, the text also tells how many there are in all."""
    return first_of(values, len(values))


def at_offset(offset: int | None) -> str:
    """Returns " at offset N", or an empty string for None."""
    return "" if offset is None else f" at offset {offset}"


def many(n: int, what: str) -> str:
    """Returns a number and a noun, such as "2 records". The noun gets a plural s unless the number is 1."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def joined(*parts: str) -> str:
    """Returns the parts as sentences: each one starts with a capital and ends with a full stop.

    Empty parts are left out.
    """
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
