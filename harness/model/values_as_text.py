"""Text of times, values, counts and lists, for messages and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LISTED: Final = 8


def seconds(time_ns: int) -> str:
    """Returns a time since the start of the run, in seconds."""
    return f"{time_ns / 1e9:.3f} s"


def plain(value: Any) -> str:
    """Returns a value as text that is safe for a terminal: unprintable characters are escaped."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def first_of(values: Sequence[Any], count: int) -> str:
    """Returns the first few of the values as text.

    If some are left out, the text ends with `count`, the total number.
    """
    text = ", ".join(str(value) for value in values[:LISTED])
    return text + (f", ... ({count:,} in all)" if count > LISTED else "")


def listed(values: Sequence[Any]) -> str:
    """Returns the first few of the values as text. If some are left out, the text ends with the total number."""
    return first_of(values, len(values))


def at_offset(offset: int | None) -> str:
    """Returns " at offset N", or an empty string for None."""
    return "" if offset is None else f" at offset {offset}"


def many(n: int, what: str) -> str:
    """Returns a count with its noun. The noun gets a plural s unless the count is 1."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def joined(*parts: str) -> str:
    """Returns the non-empty parts as sentences: each part gets a capital and a full stop."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
