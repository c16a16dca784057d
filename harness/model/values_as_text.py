"""Text of times, values, counts and lists, for messages and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LISTED: Final = 8


def seconds(time_ns: int) -> str:
    """Return a time since the start of the run, in seconds."""
    return f"{time_ns / 1e9:.3f} s"


def plain(value: Any) -> str:
    """Return a value as text that is safe for a terminal: unprintable characters are escaped."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def first_of(values: Sequence[Any], count: int) -> str:
    """Return the first few of the values as text. `count`: the total number, given if some are left out."""
    text = ", ".join(str(value) for value in values[:LISTED])
    return text + (f", ... ({count:,} in all)" if count > LISTED else "")


def listed(values: Sequence[Any]) -> str:
    """Return the first few of the values as text, and their number if some are left out."""
    return first_of(values, len(values))


def at_offset(offset: int | None) -> str:
    """Return " at offset N", or an empty string for None."""
    return "" if offset is None else f" at offset {offset}"


def many(n: int, what: str) -> str:
    """Return a count with its noun, in the plural if needed."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def joined(*parts: str) -> str:
    """Join the non-empty parts as sentences: each capitalised, with a full stop."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
